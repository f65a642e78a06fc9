"""A small file of every kind that read_file reads, each with a fact in it that stands nowhere else.

EVERY_KIND[".pdf"]      # (b"%PDF-1.4…", "412 lanterns")
"""

from eval.benchmarks.sample_set import SAMPLE
from tests.file_bytes import (
    docx_bytes,
    epub_bytes,
    m4a_bytes,
    pdf_bytes,
    picture_bytes,
    pptx_bytes,
    wav_bytes,
    xlsx_bytes,
    zip_bytes,
)

FACT = "412 lanterns"
TABLE = [["ship", "load"], ["Velmor", FACT]]
OLD_WORKBOOK = next(SAMPLE.glob("*/*.xls"))  # no library at hand writes one
MP3_FRAME = b"\xff\xfb\x90\x00" + bytes(413)  # MPEG 1 layer III, 128 kbit/s, 44,100 Hz, two channels
XML = f"<ships>\n  <ship name='Velmor'>{FACT}</ship>\n</ships>\n".encode()
PDB = b"REMARK   2 RESOLUTION.    412 LANTERNS\nATOM      1  CA  GLY A   1      37.237  -1.126  33.459\n"


EVERY_KIND: dict[str, tuple[bytes, str]] = {
    ".txt": (f"Velmor has {FACT}.\n".encode(), FACT),
    ".md": (f"# Ships\n\n- Velmor: {FACT}\n".encode(), FACT),
    ".csv": (f"ship,load\nVelmor,{FACT}\n".encode(), FACT),
    ".tsv": (f"ship\tload\nVelmor\t{FACT}\n".encode(), f"Velmor | {FACT}"),
    ".json": (f'{{"Velmor": "{FACT}"}}'.encode(), FACT),
    ".jsonl": (f'{{"Velmor": "{FACT}"}}\n{{}}\n'.encode(), FACT),
    ".jsonld": (f'{{"@graph": [{{"name": "Velmor", "load": "{FACT}"}}]}}'.encode(), FACT),
    ".xml": (XML, f"<ship name='Velmor'>{FACT}</ship>"),
    ".html": (f"<html><body><p>Velmor has {FACT}.</p></body></html>".encode(), FACT),
    ".py": (f'if True:\n    LOAD = "{FACT}"\n'.encode(), f'if True:\n    LOAD = "{FACT}"'),
    ".pdb": (PDB, "412 LANTERNS\nATOM      1  CA"),
    ".xlsx": (xlsx_bytes({"ships": TABLE}), f"Velmor | {FACT}"),
    ".xls": (OLD_WORKBOOK.read_bytes(), "Fizeva | 5553"),
    ".docx": (docx_bytes(["Of ships."], TABLE), f"Velmor | {FACT}"),
    ".pptx": (pptx_bytes([("Ships", "Velmor", f"It has {FACT}.")]), f"[speaker note] It has {FACT}."),
    ".pdf": (pdf_bytes([["Ships"], TABLE]), f"Velmor | {FACT}"),
    ".epub": (epub_bytes("Ships", [("One", ["Nothing."]), ("Two", [f"Velmor has {FACT}."])]), FACT),
    ".zip": (zip_bytes({"a/ships.csv": f"ship,load\nVelmor,{FACT}\n".encode()}), "a/ships.csv | "),
    ".png": (picture_bytes("PNG", [FACT]), FACT),
    ".jpg": (picture_bytes("JPEG", [FACT]), FACT),
    ".gif": (picture_bytes("GIF", [FACT]), FACT),
    ".webp": (picture_bytes("WEBP", [FACT]), FACT),
    ".wav": (wav_bytes([440, 660]), "sound, 4044 bytes"),
    ".mp3": (b"ID3\x04\x00\x00\x00\x00\x00\x04abcd" + MP3_FRAME * 100, "sound, 41714 bytes"),
    ".m4a": (m4a_bytes(7_000), "sound, 132 bytes"),
}
PICTURES = (".png", ".jpg", ".gif", ".webp")
