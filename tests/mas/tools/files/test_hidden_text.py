"""Text that office libraries pass over or keep by mistake: tracked changes, fields, equations, deleted text."""

import io
import re
import zipfile
from collections.abc import Callable

import pytest

from mas.tools.files.document import Source
from mas.tools.files.kinds import read_in_process
from tests.file_bytes import docx_bytes, epub_bytes, pdf_bytes, pptx_bytes, zip_bytes

NAMESPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main"'
)
MARK = "QQQ"


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def insert(data: bytes, member: str, whole: str, by: str) -> bytes:
    """An office file with the element `whole` around MARK, a pattern, replaced by other XML."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        members = {name: package.read(name) for name in package.namelist()}
    by = re.sub(r"<([\w:]+)", rf"<\1 {NAMESPACES}", by, count=1)
    text = members[member].decode()
    assert re.search(whole, text)
    members[member] = re.sub(whole, lambda _: by, text).encode()
    return zip_bytes(members)


def read(name: str, data: bytes) -> list[str]:
    return [line.text for part in read_in_process(Source(name, data)).parts for line in part.lines]


def in_paragraph(xml: str, member: str = "word/document.xml") -> bytes:
    data = docx_bytes([MARK])
    if member != "word/document.xml":
        data = rename(data, "word/document.xml", member)
    return insert(data, member, f"<w:p><w:r><w:t>{MARK}</w:t></w:r></w:p>", f"<w:p>{xml}</w:p>")


def rename(data: bytes, old: str, new: str) -> bytes:
    """The file with its main part under another name, as some programs write it."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        members = {name: package.read(name) for name in package.namelist()}
    moved = {name.replace(old.rpartition("/")[2], new.rpartition("/")[2]): each for name, each in members.items()}
    names = (old.rpartition("/")[2].encode(), new.rpartition("/")[2].encode())
    return zip_bytes({name: each.replace(*names) for name, each in moved.items()})


def equation(xml: str) -> str:
    inner = re.sub(r"[(]([^()]*)[)]", r"<m:r><m:t>\1</m:t></m:r>", xml)
    return f"<m:oMath>{inner}</m:oMath>"


EQUATIONS = [
    ("<m:f><m:num>(1)</m:num><m:den>(2)</m:den></m:f>", "1/2"),
    ("<m:f><m:num>(a+b)</m:num><m:den>(2)</m:den></m:f>", "(a+b)/2"),
    ("<m:sSup><m:e>(x)</m:e><m:sup>(2)</m:sup></m:sSup>", "x^2"),
    ("<m:sSub><m:e>(x)</m:e><m:sub>(10)</m:sub></m:sSub>", "x_10"),
    ("<m:sSubSup><m:e>(x)</m:e><m:sub>(1)</m:sub><m:sup>(2)</m:sup></m:sSubSup>", "x_1^2"),
    ("<m:rad><m:deg/><m:e>(x+1)</m:e></m:rad>", "\u221a(x+1)"),
    ("<m:d><m:e>(a)</m:e></m:d>(=3)", "(a)=3"),
    ('<m:d><m:dPr><m:begChr m:val="|"/><m:endChr m:val="|"/></m:dPr><m:e>(a)</m:e></m:d>', "|a|"),
    (
        '<m:nary><m:naryPr><m:chr m:val="\u2211"/></m:naryPr><m:sub>(i=1)</m:sub><m:sup>(3)</m:sup><m:e>(i)</m:e>'
        "</m:nary>",
        "\u2211_(i=1)^3 i",
    ),
    ("<m:func><m:fName>(sin)</m:fName><m:e>(x)</m:e></m:func>", "sin x"),
]


@pytest.mark.parametrize(
    "xml",
    [
        f'<w:ins w:id="1" w:author="A">{run("55")}</w:ins>',
        f'<w:ins w:id="1" w:author="A">{run("5")}<w:ins w:id="2" w:author="B">{run("5")}</w:ins></w:ins>',
        f'<w:moveTo w:id="1" w:author="A">{run("55")}</w:moveTo>',
        f"<w:sdt><w:sdtPr><w:alias w:val='x'/></w:sdtPr><w:sdtContent>{run('55')}</w:sdtContent></w:sdt>",
        f"<w:sdt><w:sdtContent><w:ins w:id='1' w:author='A'>{run('55')}</w:ins></w:sdtContent></w:sdt>",
        f'<w:fldSimple w:instr="REF x">{run("55")}</w:fldSimple>',
        f'<w:smartTag w:element="x">{run("55")}</w:smartTag>',
        f'<w:customXml w:element="x">{run("55")}</w:customXml>',
        f'<w:dir w:val="ltr">{run("55")}</w:dir>',
        f'<w:bdo w:val="ltr">{run("55")}</w:bdo>',
        f'<w:hyperlink w:anchor="x"><w:ins w:id="1" w:author="A">{run("55")}</w:ins></w:hyperlink>',
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>REF x</w:instrText></w:r>'
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run("55")}<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        f"<w:r><w:ruby><w:rubyPr/><w:rt>{run('fifty')}</w:rt><w:rubyBase>{run('55')}</w:rubyBase></w:ruby></w:r>",
        f"<w:r><w:ruby><w:rt>{run('fifty')}</w:rt><w:rubyBase>{run('5')}</w:rubyBase></w:ruby>"
        f"<w:t></w:t><w:ruby><w:rt>{run('five')}</w:rt><w:rubyBase>{run('5')}</w:rubyBase></w:ruby></w:r>",
        f"<w:r><w:t>5</w:t><w:ruby><w:rt>{run('five')}</w:rt><w:rubyBase>{run('5')}</w:rubyBase></w:ruby></w:r>",
        f'<w:ins w:id="1" w:author="A">{run("55")}</w:ins><w:del><w:r><w:delText>40</w:delText></w:r></w:del>',
        f'<w:ins w:id="1" w:author="A">{run("55")}</w:ins><w:moveFrom w:id="2" w:author="A">{run("40")}</w:moveFrom>',
    ],
)
@pytest.mark.parametrize("member", ["word/document.xml", "word/document2.xml"])
def test_a_word_document_shows_what_it_says_once_all_changes_are_accepted(xml: str, member: str) -> None:
    xml = f"{run('Send ')}{xml}{run(' crates.')}"
    assert read("a.docx", in_paragraph(xml, member)) == ["Send 55 crates."]


def test_the_prefix_of_the_namespace_does_not_matter() -> None:
    word = NAMESPACES.split()[0].removeprefix("xmlns:w=")
    xml = f"<n:ins xmlns:n={word}><n:r><n:t>55</n:t></n:r></n:ins>"
    assert read("a.docx", in_paragraph(xml)) == ["55"]


@pytest.mark.parametrize(("xml", "text"), EQUATIONS)
@pytest.mark.parametrize("holder", ["{}", "<m:oMathPara>{}</m:oMathPara>"])
def test_an_equation_of_a_word_document_is_one_line(xml: str, text: str, holder: str) -> None:
    assert read("a.docx", in_paragraph(holder.format(equation(xml)))) == [text]


@pytest.mark.parametrize(("xml", "text"), EQUATIONS[:3])
def test_a_shape_with_an_equation_is_part_of_its_slide(xml: str, text: str) -> None:
    shape = r"<p:sp>(?:(?!</p:sp>).)*QQQ.*?</p:sp>"
    with zipfile.ZipFile(io.BytesIO(data := pptx_bytes([("Title", MARK, "")]))) as package:
        (old,) = re.findall(shape, package.read("ppt/slides/slide1.xml").decode(), re.DOTALL)
    made = f"<a14:m><m:oMathPara>{equation(xml)}</m:oMathPara></a14:m>"
    new = re.sub(r"<a:r>.*?</a:r>", lambda _: f"<a:r><a:t>so </a:t></a:r>{made}", old)
    both = (
        f'<mc:AlternateContent><mc:Choice Requires="a14">{new}</mc:Choice>'
        f"<mc:Fallback>{old}</mc:Fallback></mc:AlternateContent>"
    )
    assert read("a.pptx", insert(data, "ppt/slides/slide1.xml", f"(?s){shape}", both)) == ["Title", f"so {text}"]


@pytest.mark.parametrize("kind", ["slidenum", "datetime1", "custom"])
def test_a_field_of_a_slide_shows_its_text(kind: str) -> None:
    field = f'<a:fld id="{{B6F15528-21DE-4FAA-801E-634DDDAF4B2B}}" type="{kind}"><a:t>55</a:t></a:fld>'
    data = insert(pptx_bytes([("Title", MARK, "")]), "ppt/slides/slide1.xml", rf"<a:r><a:t>{MARK}</a:t></a:r>", field)
    assert read("a.pptx", data) == ["Title", "55"]


HTML = "<p>Send <del>40</del><ins>55</ins> crates.</p>"


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.html", lambda: f"<html><body>{HTML}</body></html>".encode()),
        ("b.html", lambda: HTML.replace("del>", "DEL>").replace("<DEL>", "<DEL datetime='2024-01-01'>").encode()),
        ("a.epub", lambda: epub_bytes("T", [("One", [MARK])])),
    ],
)
def test_deleted_text_of_a_page_is_not_read_with_what_replaced_it(name: str, make: Callable[[], bytes]) -> None:
    data = make()
    if name.endswith("epub"):
        data = insert(data, "OEBPS/chapter1.xhtml", f"<p>{MARK}</p>", "<p>Send <del>40</del><ins>55</ins> crates.</p>")
    assert read(name, data)[-1] == "Send 55 crates."


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ({"/FT": "/Tx", "/T": "crates", "/V": "55"}, "[form field] crates: 55"),
        ({"/FT": "/Ch", "/T": "port", "/V": "Ribova"}, "[form field] port: Ribova"),
        ({"/FT": "/Btn", "/T": "paid", "/V": "/Yes"}, "[form field] paid: Yes"),
        ({"/Parent": {"/T": "crates", "/V": "55"}}, "[form field] crates: 55"),
        ({"/Subtype": "/FreeText", "/Contents": "55 crates"}, "[comment] 55 crates"),
        ({"/Subtype": "/Text", "/Contents": "55 crates"}, "[comment] 55 crates"),
    ],
)
def test_a_form_field_of_a_pdf_shows_its_value(field: dict[str, object], shown: str) -> None:
    import pypdf
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject, TextStringObject

    def convert(value: object) -> object:
        if isinstance(value, dict):
            return DictionaryObject({NameObject(key): convert(each) for key, each in value.items()})
        return NameObject(value) if str(value).startswith("/") else TextStringObject(str(value))

    writer = pypdf.PdfWriter(io.BytesIO(pdf_bytes([["Order"], ["End"]])))
    rectangle = ArrayObject(map(pypdf.generic.NumberObject, (10, 10, 90, 30)))
    made = convert({"/Type": "/Annot", "/Subtype": "/Widget", **field})
    made[NameObject("/Rect")] = rectangle  # type: ignore[index]
    writer.pages[0][NameObject("/Annots")] = ArrayObject([writer._add_object(made)])
    written = io.BytesIO()
    writer.write(written)
    assert read("a.pdf", written.getvalue()) == ["Order", shown, "End"]


def test_a_damaged_comment_of_a_pdf_costs_neither_its_page_nor_the_other_comments() -> None:
    annotations = (
        b"/Annots [99 0 R << /Subtype /Text /Contents 98 0 R >> (no) << /Subtype /Widget /Parent 7 /V (no) >>"
        b" << /Subtype /Text /Contents (caf\xe9s) >>]"
    )
    data = pdf_bytes([["Order"], ["End"]]).replace(b"/Type /Page /", b"/Type /Page %s /" % annotations, 1)
    assert read("a.pdf", data) == ["Order", "[comment] caf\u00e9s", "End"]
