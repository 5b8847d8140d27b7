"""List defences between a secret and the outputs of the process."""

from __future__ import annotations

from undefended.defence import Defence

_MATRIX = "security/test_redaction_matrix.py::test_no_way_out_shows_any_part_of_any_secret"
_LOGGING = "security/test_redaction_logging.py"
_REDACTOR = "unit/logs/test_redactor.py"
_SHAPES = "unit/logs/test_redaction_rules.py"

REDACTION = (
    Defence(
        "types: a secret does not print itself",
        "secret.py",
        "        return \"Secret('***')\"\n",
        "        return repr(self._value)\n",
        ("security/test_redaction_matrix.py::test_a_secret_says_nothing_of_itself",),
        (32,),
    ),
    Defence(
        "registry: secrets that are known",
        "logs/redaction.py",
        "        return text if self._pattern is None else self._pattern.sub(REDACTED, text)\n",
        "        return text\n",
        (_MATRIX,),
        (32, 33),
    ),
    Defence(
        "registry: hexadecimal and base64 of them",
        "logs/redaction.py",
        "    for shift in range(3):\n",
        "    for shift in range(0):\n",
        (
            _MATRIX,
            "unit/logs/test_secret_encodings.py::test_a_secret_is_found_in_hexadecimal_and_in_base64_at_any_place",
        ),
        (32,),
    ),
    Defence(
        "names: values under a secret's name",
        "logs/redaction.py",
        "        if is_secret(name) or isinstance(value, Secret):\n",
        "        if isinstance(value, Secret):\n",
        (f"{_REDACTOR}::test_any_value_under_a_name_of_a_secret_is_redacted",),
        (32,),
    ),
    Defence(
        "names: text only under listed ones",
        "logs/redaction.py",
        "        if name not in WORDS | IDS:\n",
        "        if False:\n",
        (
            f"{_REDACTOR}::test_text_under_a_name_that_is_not_listed_becomes_its_length",
            f"{_LOGGING}::test_note_text_reaches_no_line_even_at_trace",
        ),
        (33,),
    ),
    Defence(
        "shapes: what looks like a secret",
        "logs/redaction.py",
        "        return self._redact_shapes(self.remove_secrets(line), ids=ids)\n",
        "        return self.remove_secrets(line)\n",
        (f"{_SHAPES}::test_text_that_looks_like_a_secret_is_redacted",),
        (32,),
    ),
    Defence(
        "the finished line is filtered once more",
        "logs/pipeline.py",
        "    return one_line(current_redactor().redact_line(line))\n",
        "    return one_line(line)\n",
        (f"{_LOGGING}::test_a_secret_that_only_the_finished_line_spells_is_redacted",),
        (32,),
    ),
    Defence(
        "one event is one line",
        "logs/pipeline.py",
        "    return one_line(current_redactor().redact_line(line))\n",
        "    return current_redactor().redact_line(line)\n",
        (f"{_LOGGING}::test_an_event_is_one_line_with_any_content",),
        (34,),
    ),
    Defence(
        "facts pass the allow-list",
        "logs/pipeline.py",
        "    return current_redactor().redact_facts(dict(event))\n",
        "    return dict(event)\n",
        (f"{_LOGGING}::test_note_text_reaches_no_line_even_at_trace",),
        (32, 33),
    ),
    Defence(
        "other libraries' messages are withheld",
        "logs/pipeline.py",
        '    return template if record.args else f"[hidden: {len(template)} characters]"\n',
        "    return record.getMessage()\n",
        (f"{_LOGGING}::test_of_another_library_only_the_constant_template_is_shown",),
        (33,),
    ),
    Defence(
        "addresses in other libraries' messages",
        "logs/pipeline.py",
        'return f"{method} {host[0]} {status}"\n',
        'return f"{method} {address} {status}"\n',
        (
            f"{_LOGGING}::test_of_a_request_method_host_and_status_are_shown",
            f"{_LOGGING}::test_what_a_real_request_logs_names_neither_note_nor_header",
        ),
        (33,),
    ),
    Defence(
        "standard error is scrubbed",
        "logs/setup.py",
        "        shown = self._scrub(text)\n",
        "        shown = text\n",
        (_MATRIX, f"{_LOGGING}::test_text_written_in_pieces_is_joined_before_it_is_searched"),
        (32,),
    ),
    Defence(
        "lines written in pieces are joined first",
        "logs/setup.py",
        '        whole, newline, self._pending = (self._pending + text).rpartition("\\n")\n',
        '        whole, newline, self._pending = text, "", ""\n        self._write_clean(text)\n',
        (_MATRIX,),
        (32,),
    ),
    Defence(
        "hook of uncaught exceptions",
        "logs/setup.py",
        "    sys.excepthook = _uncaught\n",
        "",
        (
            "security/test_redaction_matrix.py::test_the_last_resorts_say_what_happened_and_no_text_of_it",
        ),
        (32, 35),
    ),
    Defence(
        "hook of exceptions in threads",
        "logs/setup.py",
        "    threading.excepthook = _uncaught_in_thread\n",
        "",
        (
            "security/test_redaction_matrix.py::test_the_last_resorts_say_what_happened_and_no_text_of_it",
        ),
        (32, 35),
    ),
    Defence(
        "hook of finalisers",
        "logs/setup.py",
        "    sys.unraisablehook = _unraisable\n",
        "",
        (
            "security/test_redaction_matrix.py::test_the_last_resorts_say_what_happened_and_no_text_of_it",
        ),
        (32, 35),
    ),
    Defence(
        "hook of warnings",
        "logs/setup.py",
        "    warnings.showwarning = _warning\n",
        "",
        (
            "security/test_redaction_matrix.py::test_the_last_resorts_say_what_happened_and_no_text_of_it",
        ),
        (32,),
    ),
    Defence(
        "hook of the event loop",
        "logs/setup.py",
        "    loop.set_exception_handler(_unhandled_in_loop)\n",
        "",
        (
            "security/test_redaction_matrix.py::test_the_last_resorts_say_what_happened_and_no_text_of_it",
        ),
        (32, 35),
    ),
    Defence(
        "messages of foreign exceptions are withheld",
        "logs/redaction.py",
        '    return f"[hidden: {_message_length(error)} characters]"\n',
        "    return str(error)\n",
        (f"{_REDACTOR}::test_our_errors_keep_their_message_and_others_only_their_length",),
        (32, 35),
    ),
    Defence(
        "a redaction that fails drops the event",
        "logs/pipeline.py",
        "        _write(LEVEL_NAMES[level], name, event, told)\n"
        "    except Exception:  # noqa: BLE001 - fails closed, and logging never breaks the caller\n"
        "        drop()\n",
        "        _write(LEVEL_NAMES[level], name, event, told)\n"
        "    except Exception:\n        [_send(sink, str(facts)) for sink in _sinks()]\n",
        (f"{_LOGGING}::test_what_the_redaction_cannot_handle_is_dropped_and_nothing_else_lost",),
        (32,),
    ),
    Defence(
        "a scrubbing that fails says nothing",
        "logs/logger.py",
        "    except Exception:  # noqa: BLE001 - nothing is better than a secret\n"
        "        return DROPPED\n",
        "    except OSError:\n        return DROPPED\n",
        ("security/test_redaction_logging.py::test_text_that_cannot_be_scrubbed_is_not_shown",),
        (32,),
    ),
    Defence(
        "every secret of the configuration is protected",
        "logs/logger.py",
        "    protect(*config.store_settings.secrets.values(), config.db_key, *raw)\n",
        "    protect(config.db_key, *raw)\n",
        (f"{_LOGGING}::test_every_secret_of_a_configuration_is_protected",),
        (32,),
    ),
    Defence(
        "errors of the command line are scrubbed",
        "cli/main.py",
        "several_lines(clean(text))",
        "several_lines(text)",
        (
            "security/test_redaction_matrix.py::test_errors_of_a_command_are_redacted_also_without_logging",
        ),
        (32,),
    ),
    Defence(
        "errors for the client are scrubbed",
        "protocol/call_pipeline.py",
        "    value = error.to_dict(logs.scrub_for_client)\n",
        "    value = error.to_dict()\n",
        (_MATRIX,),
        (32,),
    ),
    Defence(
        "protocol errors are scrubbed",
        "protocol/sdk_server.py",
        "    facts = error.to_dict(logs.scrub_for_client)\n",
        "    facts = error.to_dict()\n",
        (_MATRIX,),
        (32,),
    ),
    Defence(
        "progress messages are scrubbed",
        "protocol/consent.py",
        "logs.scrub_for_client(message)",
        "message",
        (_MATRIX,),
        (32,),
    ),
    Defence(
        "headers in other libraries' messages",
        "logs/pipeline.py",
        "        return step[0]\n",
        "        return template\n",
        (
            f"{_LOGGING}::test_of_a_connection_only_the_step_is_shown",
            "security/test_adversary_surroundings.py::test_secrets_in_a_services_headers_and_redirects_reach_no_log",
        ),
        (33,),
    ),
    Defence(
        "an unexpected error tells the client nothing of itself",
        "protocol/call_pipeline.py",
        "            failed = record.failed(report_unexpected(error, while_doing=tool.name))\n",
        "            failed = record.failed(NotariumError(str(error)))\n",
        ("unit/protocol/test_sdk_server.py::test_unexpected_exception_shows_only_its_trace_id",),
        (32,),
    ),
    Defence(
        "invalid arguments are not repeated",
        "protocol/call_pipeline.py",
        'at["msg"]),\n        }\n        for at in error.errors(include_url=False, include_input=False, include_context=False)\n',
        "at['msg'] + str(at['input'])),\n        }\n        for at in error.errors()\n",
        (
            "unit/protocol/test_sdk_server.py::test_invalid_arguments_are_named_and_their_values_are_not_repeated",
        ),
        (32,),
    ),
)
