# ruff: noqa: RUF001 - words of languages with other letters
"""Tell which words of a query say nothing about what is looked for: articles, pronouns, prepositions. Pure.

A small notebook has no frequencies that could tell it, so there are lists of the common languages. Some of their
words mean something in another language (``war``, ``die``, ``son``): these count only in a query that has more
function words of their language than of any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

from mcp_notarium.search.folding import fold, pieces

_PLAIN = {
    "English": """
        a an the and or of to for with is are was were be been being do does did doing how what when where which
        who whom whose why this that these those it its i my me we our you your he she they them his him hers
        her their from by on at as in into about if than then there here not no can could should would also just
        very but any some such only too each both while because through between during has have had having
        cannot don doesn didn isn aren wasn weren couldn shouldn wouldn won s t ll re ve d m
    """,
    "German": """
        der das dem des ein eine einer eines einem einen und oder aber ist sind waren wird werden wurde wurden
        habe haben hatte ich du sie es wir ihr mich dich mir ihm ihn uns ihnen mein meine meinen meiner dein
        deine sein seine ihre ihren unser unsere nicht kein keine keinen auf aus bei nach von vom zu zum zur für
        über durch ohne bis wie wo wann warum wieso welche welcher welches dass wenn ob auch noch nur schon sehr
        im ins kann können muss müssen soll sollen dies diese diesen dieser dieses doch beim
    """,
    "French": """
        le la les un une des du de et ou où est sont était être avoir je tu il elle nous vous ils elles mon ma
        mes tes sa ses notre votre leur leurs ce cet cette ces que qui quoi dont dans avec sans ne pas comment
        quand pourquoi quel quelle quels quelles au aux en y se mais est-ce
    """,
    "Spanish": """
        el los las una unos unas y o del al con para qué que cómo cuándo dónde cuál quién es está están ser
        estar fue ha han haber lo su sus mis tus nuestro este esta estos estas ese esa eso esto sí pero muy como
        cuando donde entre hasta desde porque yo ella nosotros ellos la de un se
    """,
    "Italian": """
        il gli uno di da con fra ma che chi cui non è sono essere ha hanno ho del dello della dei degli delle al
        allo alla agli alle dalla nel nella nei nelle sul sulla perché quale quali mio mia miei tuo suo sua suoi
        questo questa quello quella anche lo la un una e i
    """,
    "Portuguese": """
        um uma uns umas do das em na pelo pela para com sem quem qual onde porque é são ser está estão foi ter
        tem não mas muito seu sua seus suas meu minha isso isto ele eles eu você nós ao aos à de e o da que como
    """,
    "Dutch": """
        de het een en te voor naar uit bij om tot is zijn waren wordt worden heeft hebben ik je jij hij zij wij
        mijn jouw ons onze dit dat deze niet geen maar ook nog als wanneer waarom hoe welke er moet zou zal met
    """,
    "Scandinavian": """
        och og att det en ett et är er vara være som på til till för av af från fra inte ikke icke jag jeg du
        hon hun ni de dem mig meg mitt mine hur hvordan hvad hva när når hvor vem hvem varför hvorfor vilken
        skal eller men också også
    """,
    "Polish": """
        w z na od u o przed przez przy dla bez nad jest są był była było być się nie tak tego tej co kto jak
        kiedy gdzie dlaczego który która które czy oraz albo lub że żeby już jeszcze tylko moja moje swój jego
        jej ich
    """,
    "Czech": """
        ve od ze při před přes je jsou byl byla bylo být že aby nebo jak kdy kde proč který která které kdo není
        já můj moje jeho její jejich
    """,
    "Russian": """
        и в во на с со к ко о об от до по за из у для без над под при это этот эта эти тот та те что кто как
        когда где почему который которая которые не ни нет но или а же бы ли был была было были быть я ты он она
        оно мы вы они мой моя мои его её их так уже ещё только мне меня
    """,
    "Ukrainian": """
        і й та у з із до від по за для без це цей ця ці що хто як коли де чому який яка які не або але чи є був
        була було ти він вона ми ви вони мій його її їх
    """,
    "Turkish": """
        ve ile bir bu için mı mu mü ne nasıl neden nerede hangi veya daha çok gibi kadar olarak sen
    """,
    "Hungarian": """
        az egy és vagy hogy nem ez azt ezt hol mikor miért hogyan lesz csak még mint
    """,
    "Finnish": """
        ja tai on ei että mutta kun jos niin kuin mitä mikä missä milloin miksi miten minä sinä ovat oli
    """,
    "Romanian": """
        și sau în la cu un o unei este sunt ce cine cum când unde să
    """,
}
"""Words that mean nothing alone, by language."""
_OTHER = {
    "English": """
        may us will am so own same all more most other
    """,
    "German": """
        die den war man am an so in hat bin was wer will also mal nun als er um da hier mit dir
    """,
    "French": """
        son sur pour on me as si plus a ta sous car ton par l d j n qu c
    """,
    "Spanish": """
        son le les por si mi tu te no más ya hay sin en
    """,
    "Italian": """
        per in su tra quando si se più ai le a o li era dal dove come
    """,
    "Portuguese": """
        as a no por se mais ou os dos nas nos sim
    """,
    "Dutch": """
        die op in aan over onder was had ze wat wie waar of door kan wil van dan
    """,
    "Scandinavian": """
        at den var for med om i han kan ska vil vill har hade hadde sin man ett to min din vi
    """,
    "Polish": """
        i on we my ale do pod ten ta te to za po ja ty ona mój
    """,
    "Czech": """
        a i v na do z s se k u o po za pro to ten ta ale co ne ty on ona my
    """,
    "Russian": """
        есть да
    """,
    "Turkish": """
        o da de mi ya en var yok kim olan ben şu ama biz
    """,
    "Hungarian": """
        a de is mi ki meg van volt mar már
    """,
    "Finnish": """
        se me te he hän
    """,
    "Romanian": """
        de a nu era care din pe
    """,
}
"""Words that mean something in another language."""


@cache
def _plain() -> dict[str, frozenset[str]]:
    return {name: _folded(words) for name, words in _PLAIN.items()}


@cache
def _all_plain() -> frozenset[str]:
    return frozenset().union(*_plain().values())


def _folded(words: str) -> frozenset[str]:
    return frozenset(pieces(fold(words)))


def stop_words(words: Sequence[str]) -> frozenset[str]:
    """Return those of the words of a query, as typed, that are stop words next to the others."""
    folded = {word: pieces(fold(word)) for word in words}
    typed = {piece for found in folded.values() for piece in found}
    known = typed & _all_plain()
    spoken = Counter({name: len(typed & plain) for name, plain in _plain().items()})
    (language, most), (_, second) = spoken.most_common(2)
    if most > second:
        known |= _folded(_OTHER.get(language, ""))
    return frozenset(word for word, found in folded.items() if found and known.issuperset(found))
