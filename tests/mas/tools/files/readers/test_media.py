"""The frames of pictures."""

import io

import pytest
from PIL import Image

from mas.tools.files.document import Source
from mas.tools.files.kinds import read_in_process
from tests.needs import needs


@pytest.mark.parametrize("kind", ["GIF", "TIFF"])
def test_a_picture_of_several_frames_says_that_the_first_is_read(kind: str) -> None:
    written = io.BytesIO()
    first, *others = (Image.new("L", (8, 6), shade) for shade in (0, 40, 80))
    first.save(written, kind, save_all=True, append_images=others)
    summary = read_in_process(Source("a", written.getvalue())).summary
    assert summary.endswith(", 3 frames of which the first is read")


@needs("tesseract")
def test_a_line_of_one_pixel_is_a_picture() -> None:
    written = io.BytesIO()
    Image.new("L", (9000, 1), 255).save(written, "PNG")
    assert "9000 x 1 pixels" in read_in_process(Source("a", written.getvalue())).summary
