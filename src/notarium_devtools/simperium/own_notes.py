# ruff: noqa: RUF001 - Chinese and Japanese keep their own punctuation
"""Provide everyday notes in several languages and scripts, written for this purpose."""

from __future__ import annotations

OWN_NOTES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Lista zakupów",
        (
            "chleb żytni\nmasło\ntwaróg\nśledzie w oleju\nkasza gryczana\njabłka — te kwaśne\n\n"
            "Łódź: oddać książkę Żeromskiego do biblioteki przed środą."
        ),
        ("dom", "zakupy"),
    ),
    (
        "Notatki ze spotkania 12 marca",
        (
            "Obecni: Zofia, Michał, Bożena.\n\n1. Przenosimy wdrożenie na przyszły tydzień.\n"
            "2. Michał sprawdzi, dlaczego źle się liczą święta w kalendarzu.\n"
            "3. Następne spotkanie: czwartek, godzina dziewiąta, mała sala."
        ),
        ("praca", "spotkania"),
    ),
    (
        "Zwetschgenkuchen von Großmutter",
        (
            "500 g Mehl, ein Würfel Hefe, 80 g Zucker, ¼ l lauwarme Milch, 100 g Butter, 1 Ei.\n\n"
            "Den Teig gehen lassen, bis er sich verdoppelt hat. Dicht an dicht mit entsteinten "
            "Zwetschgen belegen, Streusel darüber, 35 Minuten bei 190 Grad.\n"
            "Schmeckt am zweiten Tag besser."
        ),
        ("Rezepte",),
    ),
    (
        "Steuererklärung: was noch fehlt",
        (
            "- Bescheinigung der Krankenversicherung\n- Quittungen für das Arbeitszimmer\n"
            "- Donaudampfschifffahrtsgesellschaft: Fahrkarte für die Dienstreise suchen\n"
            "- Frist ist der 31. Juli, Verlängerung ist möglich"
        ),
        ("Büro", "wichtig"),
    ),
    (
        "京都旅行の計画",
        (
            "四月の第一週に京都へ行く。桜が咲いているはず。\n\n一日目：清水寺と祇園を歩く。\n"
            "二日目：嵐山の竹林、午後は渡月橋のあたりで休む。\n三日目：図書館で古い地図を調べる。\n"
            "宿は二条駅の近くに予約した。"
        ),
        ("旅行", "日本"),
    ),
    (
        "读书笔记：红楼梦第一回",
        (
            "作者自云曾历过一番梦幻之后，故将真事隐去，而借通灵说此《石头记》一书也。\n\n"
            "想法：开头的神话和后面的日常生活形成对照。下次读第二回，注意冷子兴的叙述。"
        ),
        ("读书", "資料"),
    ),
    (
        "회의 메모",
        (
            "다음 주 화요일까지 번역을 마친다.\n민수는 그림을 고치고, 지영은 색인을 확인한다.\n"
            "인쇄소에 전화해서 종이 값을 물어볼 것."
        ),
        ("회의", "번역"),
    ),
    (
        "Garden diary 🌱",
        (
            "Sowed the first tomatoes 🍅 on the windowsill. The jar of seeds says “sow until April”, "
            "my neighbour says March is already too late.\n\nWater only from below. Café grounds "
            "against the slugs, naïve as that may be."
        ),
        ("garden",),
    ),
    (
        "# Reading list",
        (
            "* [ ] The Periodic Table, Primo Levi\n* [x] Invisible Cities, Italo Calvino\n"
            "* [ ] Solaris, Stanisław Lem (**Polish** first, then the translation)\n\n"
            "> Ask Ana which of these the library has."
        ),
        ("reading", "books"),
    ),
    (
        "สมุดบันทึก",
        "พรุ่งนี้ไปตลาดเช้า ซื้อมะม่วงและข้าวเหนียว\nโทรหาแม่ตอนเย็น",
        ("บ้าน",),
    ),
)
