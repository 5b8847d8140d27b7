# ruff: noqa: RUF001 - other scripts keep their own letters and punctuation
"""Make daily notes: a few everyday sentences under a date, in the languages of the judged notes.

They talk of the same things (boilers, trains, doctors, soup) and answer no query, as most notes of a diary do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

_FIRST = datetime(2014, 1, 1, 7, tzinfo=UTC)
_DAYS = 4000
_FEWEST, _MOST = 3, 7

_SENTENCES = {
    "en": """Slept badly and dreamt of school. Called the landlord about the light in the stairs. The boiler is fine again.
Two meetings before lunch, none of them needed. Soup from the freezer. How do I always end up with the late shift? The train was on time
for once. Bread from the corner shop, ours was gone. The doctor has no appointment before summer. Rain all day, cleaned the cupboards.
The server was slow, nobody knows why. Wrote two pages and deleted three. The cat sat in the box again. What did I want to buy?
Tyres pumped up, lights checked. The neighbours practise the piano. My sister called, we talked for an hour about nothing.
Garden: pulled weeds until dark. A new colleague has started. The password was wrong three times. The printer worked at the first try!
Insurance letter, filed. Pasta with tomato sauce. Looked at photos from the holiday. Where is the second key? The shop was closed.
Reviewed a branch and asked for a test. Long walk along the canal. Nothing broke today. The choir sang in the street.""",
    "de": """Schlecht geschlafen. Der Zug kam zwanzig Minuten zu spät. Kuchen vom Bäcker. Die Heizung läuft wieder. Sitzung bis acht, ohne
Ergebnis. Im Garten Laub gerecht. Wie viele Schlüssel hatten wir eigentlich? Beim Arzt gewartet. Kinder in der Schule, Ruhe im Haus.
Die Wohnung ist zu klein. Brief von der Versicherung abgelegt. Fahrrad geputzt. Der Server war langsam. Suppe gekocht, zu viel Salz.
Wann war noch mal der Termin? Mit der Nachbarin über die Miete gesprochen. Langer Tag, früh ins Bett. Telefonat mit den Eltern.
Dateien sortiert und einen Ordner gelöscht. Regen. Das Auto springt nicht an. Frau Lohmann war im Urlaub.""",
    "fr": """Mal dormi. Le train avait du retard. Soupe et pain grillé. La chaudière fait moins de bruit. Réunion sans fin. Les enfants sont
chez leur grand-mère. Pluie toute la journée. J'ai rangé la cave. Où est passée la pompe du vélo? Le médecin est en vacances. Longue
promenade au jardin public. Facture payée. Crêpes chez les voisins. Le serveur était lent. Madame Roux a encore oublié ses clés.
Lu trente pages. Appelé maman. Rien de neuf au bureau.""",
    "es": """He dormido mal. El tren llegó tarde. Tortilla del bar de abajo. La caldera funciona. Reunión larga y sin acuerdos. Los niños,
en el colegio. Llueve desde ayer. He ordenado el armario. ¿Dónde está la llave del trastero? La veterinaria no atiende los viernes.
Paseo por la playa. Factura pagada. El servidor iba lento. Mi tía llamó. Sopa y a la cama. Nada nuevo en el trabajo. He corrido media hora.""",
    "ru": """Плохо спал. Поезд опоздал. Суп из холодильника. Кран больше не капает. Совещание затянулось. Дети в школе. Дождь весь день. Убирал
на балконе. Куда делся второй ключ? Врач в отпуске. Гуляли у реки. Оплатил счёт. Сервер тормозил. Звонила мама. Кот спал на клавиатуре.
Ничего нового на работе.""",
    "zh": """昨晚没睡好。 地铁很挤。 晚饭吃了面条。 热水器正常了。 会议开了两个小时。 下雨，没出门。 收拾了书架。 钥匙找不到了。 医生说没事。 孩子去上学了。
服务器有点慢。 给妈妈打了电话。 邻居家的猫又来了。 今天没有什么新鲜事。""",
    "ja": """よく眠れなかった。 電車が遅れた。 夕飯はうどん。 給湯器は問題ない。 会議が長かった。 一日中雨だった。 本棚を片付けた。 鍵が見つからない。 病院は休みだった。
子どもは学校。 サーバーが重かった。 母に電話した。 犬と公園を歩いた。 特に何もない日。""",
}
_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
}
_LANGUAGES = ("en", "en", "en", "de", "de", "fr", "es", "ru", "zh", "ja")


def daily(count: int, *, free: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Yield ``count`` texts with their dates in epoch seconds, all of different days and none of those in ``free``."""
    dice = random.Random(11)
    days = [_FIRST + timedelta(days=number) for number in range(_DAYS)]
    for day in dice.sample([day for day in days if f"{day:%Y-%m-%d}" not in free], count):
        language = dice.choice(_LANGUAGES)
        ending = " " if language in {"zh", "ja"} else ". "
        sentences = " ".join(_SENTENCES[language].split()).split(ending)
        chosen = dice.sample(sentences, dice.randint(_FEWEST, _MOST))
        yield f"{_heading(day, language, dice)}\n\n{ending.join(chosen)}\n", int(day.timestamp())


def _heading(day: datetime, language: str, dice: random.Random) -> str:
    if language in {"zh", "ja"}:
        return f"{day.year}年{day.month}月{day.day}日"
    month = _MONTHS[language].split()[day.month - 1]
    written = {
        "en": f"{day.day} {month} {day.year}",
        "de": f"{day.day}. {month} {day.year}",
        "fr": f"{day.day} {month} {day.year}",
        "es": f"{day.day} de {month} de {day.year}",
        "ru": f"{day.day} {month} {day.year} года",
    }[language]
    by_numbers = f"{day:%d/%m/%Y}" if language in {"fr", "es"} else f"{day:%d.%m.%Y}"
    return dice.choice((written, written, f"{day:%Y-%m-%d}", by_numbers))
