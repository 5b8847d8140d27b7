"""Realistic notes in any number, the same for the same seed: prose, many scripts, odd endings.

``revisions(n)`` is the whole interface; ``Mix`` says which share of the notes is what.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pydoc_data.topics import topics

from mcp_notarium.domain.note import Content, Revision

EPOCH = 1_700_000_000

_SCRIPTS = {
    "chinese": "我们今天在北京的会议上讨论了预算和时间表。下周三之前必须提交报告,否则项目会延期。数据库加密很重要。",
    "japanese": "東京都の会議で予算について話し合いました。カメラを買う。明日は雨が降るかもしれません。ひらがなと漢字。",
    "korean": "서울에서 회의를 했습니다. 예산은 다음 주까지 확정해야 합니다. 데이터베이스를 암호화하세요.",
    "thai": "วันนี้ประชุมเรื่องงบประมาณที่กรุงเทพ ต้องส่งรายงานภายในวันพุธหน้า ฐานข้อมูลถูกเข้ารหัส",
    "polish": "Zażółć gęślą jaźń. Łódź leży w środku Polski; źródło błędu było w pliku. Świętować będziemy później.",
    "vietnamese": "Hôm nay chúng tôi họp ở Hà Nội về ngân sách. Đường đi rất đẹp, phở ngon. Người Việt Nam uống cà phê.",
    "german": "Die Straße führt über den Fluss. Grüße aus München; das Donaudampfschifffahrtsgesellschaftskapitänspatent fehlt.",
    "nordic": "Smørrebrød på en øy. Ærlig talt, Ðórr og Þór spiste fisk i Tromsø. Håkon så på skjermen.",
    "turkish": "İstanbul'da ışık söndü. Iğdır'a giden yol kapalı; çalışma günü değişti.",  # noqa: RUF001 - the dotless letter is meant
    "emoji": "Trip 🚀 to the beach 🏖️ with 👩‍👩‍👧‍👦 and a 🐙. Done ✅ Pay 💶 tomorrow.",
}
TAGS = (
    "work",
    "home",
    "Recipes",
    "reading list",
    "zażółć",
    "東京",
    "project-x",
    "2024",
    "a/b",
    "Ü",
)


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares between 0 and 1. ``prose_length`` is the mean number of characters of a note."""

    other_scripts: float = 0.2
    trashed: float = 0.08
    crlf: float = 0.03
    long: float = 0.003
    many_tags: float = 0.01
    prose_length: int = 1300


EVERYDAY = Mix()
MOTLEY = Mix(other_scripts=0.5, trashed=0.15, crlf=0.1, long=0.01, many_tags=0.05, prose_length=500)


@cache
def _sentences() -> tuple[str, ...]:
    text = " ".join(" ".join(topics[name].split()) for name in sorted(topics))
    return tuple(part.strip() + "." for part in text.split(". ") if 20 < len(part) < 300)


def revisions(count: int, *, seed: int = 1, mix: Mix = EVERYDAY) -> Iterator[Revision]:
    """``count`` notes, newest first as a store lists them."""
    for number in range(count):
        yield revision(number, random.Random(f"{seed}/{number}"), mix=mix)


def revision(number: int, dice: random.Random, *, mix: Mix = EVERYDAY) -> Revision:
    """One note; ``number`` also orders it in time."""
    content = Content(
        text=_text(number, dice, mix),
        tags=_tags(number, dice, mix),
        trash=dice.random() < mix.trashed,
    )
    version = dice.randint(1, 40)
    return make(
        f"{dice.getrandbits(128):032x}",
        content,
        version=version,
        created_at=EPOCH - number * 311.5 - dice.randint(0, 10_000_000),
        modified_at=EPOCH - number * 311.25,
    )


def make(
    note_id: str,
    content: Content,
    *,
    version: int = 1,
    created_at: float = EPOCH,
    modified_at: float = EPOCH,
) -> Revision:
    """A revision whose raw looks like what Simplenote's codec makes."""
    raw = {
        "tags": list(content.tags),
        "deleted": content.trash,
        "systemTags": ["markdown"] if version % 7 == 0 else [],
        "creationDate": created_at,
        "modificationDate": modified_at,
        "shareURL": "",
        "publishURL": "",
    }
    return Revision(
        id=note_id,
        etag=str(version),
        content=content,
        created_at=created_at,
        modified_at=modified_at,
        raw=json.dumps(raw).encode(),
        server_version=version,
    )


def _text(number: int, dice: random.Random, mix: Mix) -> str:
    length = max(20, int(dice.gauss(mix.prose_length, mix.prose_length / 3)))
    if dice.random() < mix.long:
        length *= 40
    paragraphs = [f"Note {number}: {dice.choice(_sentences())}"]
    foreign = 0.6 if dice.random() < mix.other_scripts else 0.0
    size = 0
    while size < length:
        paragraph = _paragraph(dice, foreign)
        paragraphs.append(paragraph)
        size += len(paragraph)
    ending = "\r\n" if dice.random() < mix.crlf else "\n"
    return ending.join(paragraphs) + dice.choice(("", ending, ending * 2))


def _paragraph(dice: random.Random, foreign: float) -> str:
    if dice.random() < foreign:
        text = _SCRIPTS[dice.choice(sorted(_SCRIPTS))]
        start = dice.randrange(len(text) // 2)
        return text[start : start + dice.randint(8, len(text))]
    return " ".join(dice.choice(_sentences()) for _ in range(dice.randint(1, 3)))


def _tags(number: int, dice: random.Random, mix: Mix) -> tuple[str, ...]:
    tags = dice.sample(TAGS, dice.choice((0, 0, 1, 1, 2, 3)))
    if dice.random() < mix.many_tags:
        tags += [f"tag-{number % 10_000}-{part}" for part in range(30)]
    return tuple(tags)
