"""Search as people type, in many scripts and forms: the note that is meant is the first row for a connected client."""

import json
from contextlib import asynccontextmanager

import pytest

from support.tool_client import connected
from support.tool_harness import NOW, ToolHarness

pytestmark = pytest.mark.anyio

OTHERS = [
    "Shopping\nmilk, bread and 21 eggs for 2016 pancakes",
    "Meeting\nThe team met in March and talked about 18 things.",
    "Réunion\nL'équipe parle d'un projet à l'école. Il est tard.",
    "Besprechung\nIm Januar kommen 21 Leute in das Haus.",
    "会议记录\n今天的会议讨论了新的计划和预算。",
    "買い物\n牛乳とパンを買う。明日は会議がある。",
    "ประชุม\nวันนี้มีประชุมเรื่องงบประมาณ",
    "Code\nUse a list, a pool of threads, or an array; snake and camel are animals. Rent is due.",
    "Log\n2020-03-17 10:18 started\n2020-03-19 03:20 stopped",
]
FOUND = [
    # Chinese, Japanese, Thai, Korean: no spaces, or other endings than in the note.
    ("怎么恢复删除的笔记", "文件恢复\n可以恢复已删除的笔记。"),
    ("番茄炒蛋怎么做", "西红柿炒鸡蛋\n番茄炒蛋的做法。先炒鸡蛋。再放番茄。"),
    ("快照保留多少天", "恢复\n快照默认保留七天。"),
    ("ページを別のウィンドウで開く", "ポップアウト\nページをウィンドウに移して開く方法。"),
    ("回復する 設定", "復旧\n設定から回復できます。"),
    ("การสำรองข้อมูลโน้ต", "สำรอง\nวิธีสำรองข้อมูลของโน้ต"),
    ("그래프뷰설정", "화면\n그래프 뷰의 색 설정"),
    ("iPhone手机备份", "备份\n怎样给手机做备份"),
    ('"会议讨论"', "会议讨论\n记录"),
    # Elided articles, and the possessive.
    ("l'animation", "Vue\nPour désactiver une animation, ouvrez les réglages."),
    ("l\u2019animation", "Vue\nPour désactiver une animation, ouvrez les réglages."),
    ("animation", "Vue\nOn peut couper l'animation."),
    ("dell'arte", "Museo\nArte moderna"),
    ("qu'aujourd'hui", "Notes\nAujourd'hui il pleut."),
    ("brewer's", "Beer\nThe brewer adds hops."),
    # Compounds and words that may be one.
    ("Schifffahrtsamt", "Behörde\nDas Schifffahrtsamt ist zu."),
    ("Sprachmemos", "Aufnahme\nMemos in jeder Sprache"),
    ("Quartalsabschluss", "Zahlen\nDer Abschluss des Quartals"),
    ("Dampf Schiff", "Technik\nEin Dampfschiff im Hafen"),
    ("back up", "Disk\nA backup each day"),
    ("e-mail", "Post\nAn email came"),
    # Identifiers.
    ("ArrayPool<T>.Shared.Rent", "Buffers\nTake them from an ArrayPool, and give them back."),
    ("ArrayPool<T>.Shared.Rent", "Buffers\n`ArrayPool<byte>.Shared.Rent(1024)`"),
    ("array pool", "Buffers\nTake them from an ArrayPool."),
    ('"array pool"', "Buffers\nTake them from an ArrayPool."),
    ("ArrayPool", "Buffers\narray_pool is the name in C"),
    ("snake_case", "Style\nWe write names in snake case here."),
    ("snake_case", "Style\nsnakeCase is wrong"),
    ("snakeCase", "Style\nWe write names in snake_case here."),
    ("get_user_name", "API\nCall getUserName() first."),
    ("user name", "API\nCall getUserName() first."),
    ("HTTPServer", "API\nAn http server on port 80"),
    ("#projectPlan", "Plan\nthe project plan"),
    # Dates, more of them below.
    ("3/4/2020", "Besuch\n2020-04-03"),
    ("3/4/2020", "Besuch\nMarch 4, 2020"),
    ("Januar 2016", "Besuch\n2016-01"),
    ("2016年1月21日", "Besuch\n21. Januar 2016"),
    ("Tante Hilde 21. Januar 2016", "Besuch\n2016-01-21: Tante Hilde"),
]


ASKED = ["18.03.2020", "18. März 2020", "2020-03-18", "March 18, 2020", "18 mars 2020"]
WRITTEN = [
    *("18.03.2020", "18.3.20", "2020-03-18", "18. März 2020", "18 March 2020", "March 18th, 2020"),
    *("Mar 18, 2020", "le 18 mars 2020", "18 de marzo de 2020", "18 maart 2020", "18 marzo 2020"),
    *("18 de março de 2020", "3/18/2020", "18/03/2020", "20200318", "2020年3月18日"),
]


@asynccontextmanager
async def client_of_notes(folder, text):
    """A client of a server that has the note that is meant, the oldest of all."""
    harness = ToolHarness(folder)
    for number, other in enumerate(OTHERS):
        harness.store.put(f"other{number}", other, now=NOW + number)
    harness.store.put("meant", text, now=NOW - 1)
    await harness.sync()
    try:
        async with connected(harness.opened) as client:
            yield client
    finally:
        harness.close()


async def first_row(client, query):
    answer = await client.call_tool("list", {"query": query})
    rows = json.loads(answer.content[0].text)["content"]
    return rows[0]["uuid"] if rows else None


@pytest.mark.parametrize(("query", "text"), FOUND)
async def test_the_note_that_is_meant_is_the_first_row(tmp_path, query, text):
    async with client_of_notes(tmp_path, text) as client:
        assert await first_row(client, query) == "meant"


@pytest.mark.parametrize("written", WRITTEN)
async def test_a_date_is_found_however_it_is_written_and_asked_for(tmp_path, written):
    async with client_of_notes(tmp_path, f"Besuch\n{written} Tante Hilde") as client:
        found = {asked: await first_row(client, asked) for asked in ASKED}
    assert found == dict.fromkeys(ASKED, "meant")
