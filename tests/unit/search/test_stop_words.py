"""Words that say nothing about what is looked for, beside others."""

import pytest

from mcp_notarium.search.stop_words import stop_words


@pytest.mark.parametrize(
    ("query", "telling"),
    [
        ("how do I turn off the graph animation", "turn off graph animation"),
        ("What's in the box?", "box?"),
        ("wie kann ich die Animation im Graphen abschalten", "Animation Graphen abschalten"),
        ("die Kosten der Reise", "Kosten Reise"),
        ("cómo desactivar la animación del gráfico", "desactivar animación gráfico"),
        ("comment synchroniser les notes avec mon téléphone", "synchroniser notes téléphone"),
        ("как изменить язык в настройках", "изменить язык настройках"),
        ("jak zmienić język w ustawieniach", "zmienić język ustawieniach"),
        ("to be or not to be", ""),
    ],
)
def test_function_words_of_common_languages_are_known(query, telling):
    words = query.split()
    idle = stop_words(words)
    assert [word for word in words if word not in idle] == telling.split()


@pytest.mark.parametrize(
    "query",
    [
        "world war",
        "when did he die",
        "MIT license",
        "my son",
        "sim card",
        "is the door open",
        "art",
    ],
)
def test_words_that_mean_something_in_another_language_are_kept(query):
    assert query.split()[-1] not in stop_words(query.split())
    assert not {"war", "die", "MIT", "son", "sim", "door"} & stop_words(query.split())


def test_a_function_word_may_be_written_in_any_case_and_with_signs():
    assert stop_words(["The", "ÜBER", "(of)", "cat"]) == {"The", "ÜBER", "(of)"}


def test_a_word_of_two_languages_does_not_tell_which_one_is_spoken():
    assert stop_words(["is", "us"]) == {"is"}
    assert stop_words(["is", "the", "us"]) == {"is", "the", "us"}
