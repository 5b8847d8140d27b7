"""List defences of the start of a server and of its connection."""

from __future__ import annotations

from undefended.defence import Defence

_SESSION = "unit/protocol/test_connection.py"
_TRANSPORT = "unit/protocol/test_transport.py"
_BACKLOG = "unit/protocol/test_flow_control.py"
_ACCOUNTS = "unit/config/test_accounts.py"
_PROMPTS = "cli/test_cli_prompts.py"

START = (
    Defence(
        "a file of accounts that others may write",
        "config/accounts.py",
        "        text = read_found_file(path).text\n",
        '        text = path.read_text(encoding="utf-8")\n',
        (f"{_ACCOUNTS}::test_a_file_that_others_may_write_is_refused",),
    ),
    Defence(
        "a key of one account never meets the notes of another that the environment names",
        "config/accounts.py",
        "    if name == ONLY and any(naming_variable(values) for values in better):\n",
        "    if False:\n",
        (
            f"{_ACCOUNTS}::test_an_environment_that_names_an_account_is_another_account_than_the_only_one",
        ),
    ),
    Defence(
        "accounts of two stores, or at two services, never meet",
        "stores/kind.py",
        "        for text in (self.kind, self.endpoint, self.name):\n",
        "        for text in (self.name,):\n",
        (
            "unit/stores/test_account_identity.py::test_two_accounts_have_two_hashes",
            "unit/account/test_opener.py::test_somebody_elses_account_in_the_folder_is_refused",
        ),
    ),
    Defence(
        "the only copy of the notes is never set aside",
        "account/startup_outcomes.py",
        "    if seen.only_copy:\n",
        "    if False:\n",
        ("unit/account/test_rebuilding.py::test_the_only_copy_of_the_notes_is_never_moved",),
    ),
    Defence(
        "modules of the working folder",
        "__main__.py",
        "    del sys.path[0]\n",
        "    pass\n",
        (
            "interaction/test_real_server.py::test_module_in_the_working_folder_is_not_run_though_started_by_its_name",
        ),
        (44,),
    ),
    Defence(
        "a call that waits for the SDK can be cancelled",
        "protocol/connection.py",
        "                self._waiting.remove(waiting)\n",
        "",
        (
            f"{_SESSION}::test_what_waits_keeps_its_order_and_a_cancelled_call_is_dropped",
            f"{_TRANSPORT}::test_calls_that_wait_for_the_sdk_keep_their_order_and_can_be_cancelled",
        ),
    ),
    Defence(
        "a call without an envelope is not passed on while the era is unknown",
        "protocol/connection.py",
        'if self._era is _Era.HANDSHAKE or (self._era is _Era.UNKNOWN and method == "ping"):',
        "if self._era is not _Era.MODERN:",
        (f"{_SESSION}::test_request_without_an_envelope_is_refused_while_the_era_is_unknown",),
    ),
    Defence(
        "the eras do not mix",
        "protocol/connection.py",
        "        if self._era is _Era.HANDSHAKE:\n            return Refusal(jsonrpc.INVALID_REQUEST, _ENVELOPE",
        "        if False:\n            return Refusal(jsonrpc.INVALID_REQUEST, _ENVELOPE",
        (f"{_SESSION}::test_the_eras_do_not_mix",),
    ),
    Defence(
        "the SDK gets a handshake in a form that it accepts",
        "protocol/connection.py",
        '"params": _normalize(params, self._version)',
        '"params": params',
        (
            f"{_SESSION}::test_handshake_that_is_answered_is_passed_on_in_a_form_that_the_sdk_accepts",
        ),
    ),
    Defence(
        "open calls: how many",
        "protocol/connection.py",
        "self._read - self._done + self._calls * CALL_BYTES",
        "self._read - self._done",
        (f"{_BACKLOG}::test_a_call_counts_more_than_a_line_until_it_is_answered",),
    ),
    Defence(
        "open calls: how many bytes",
        "protocol/connection.py",
        "        self._read += size + LINE_BYTES\n",
        "        self._read += LINE_BYTES\n",
        (f"{_BACKLOG}::test_it_is_full_while_too_much_was_read_that_has_no_answer",),
    ),
    Defence(
        "open lines: how many",
        "protocol/connection.py",
        "        self._read += size + LINE_BYTES\n",
        "        self._read += size\n",
        (f"{_BACKLOG}::test_it_is_full_while_too_much_was_read_that_has_no_answer",),
    ),
    Defence(
        "a reader that takes nothing before there is an event loop",
        "protocol/server.py",
        " and not held and written <= MOST_ALONE:",
        " and not held:",
        (
            "unit/protocol/test_server_before_loop.py::test_reader_that_takes_nothing_does_not_delay_the_end",
        ),
    ),
    Defence(
        "calls that wait for the SDK at the end get an error",
        "protocol/transport.py",
        "            for line in self._session.break_off():\n",
        "            for line in []:\n",
        (f"{_TRANSPORT}::test_call_that_the_sdk_never_received_fails_with_connection_closed",),
    ),
    Defence(
        "the end of input waits until calls can be answered",
        "protocol/transport.py",
        "        await first_of(self._stopping.wait, self._finished.wait, self._ready)\n",
        "",
        (f"{_TRANSPORT}::test_end_of_input_waits_until_calls_can_be_answered_and_a_stop_does_not",),
    ),
    Defence(
        "nothing is begun behind a signal",
        "protocol/transport.py",
        "        if self._closing.is_set():\n            return\n",
        "",
        (
            f"{_TRANSPORT}::test_nothing_is_taken_after_the_stop",
            "interaction/test_calls.py::test_nothing_is_begun_behind_a_signal",
        ),
    ),
    Defence(
        "what is nested too deep is no message",
        "protocol/jsonrpc.py",
        " > DEEPEST and _too_deep(value):",
        " > DEEPEST and False:",
        (
            "unit/protocol/test_jsonrpc.py::test_invalid_message_is_refused_with_its_id_if_it_has_one",
        ),
    ),
    Defence(
        "half a character in an id or a method is no message",
        "protocol/jsonrpc.py",
        ' or has_lone_surrogate([value["method"], value.get("id")]):',
        ":",
        (
            "unit/protocol/test_jsonrpc.py::test_invalid_message_is_refused_with_its_id_if_it_has_one",
        ),
    ),
    Defence(
        "a signal ends a prompt also when it comes just before the wait",
        "cli/signals.py",
        "select.select([stream.fileno(), woken], [], [])",
        "select.select([stream.fileno()], [], [])",
        (_PROMPTS + "::test_a_signal_that_interrupts_no_wait_ends_the_command_all_the_same",),
    ),
    Defence(
        "answers that nobody reads: no more requests are read",
        "protocol/connection.py",
        "unanswered > MOST_UNANSWERED or not self.has_room",
        "unanswered > MOST_UNANSWERED",
        (f"{_BACKLOG}::test_it_is_full_while_what_was_written_is_not_taken",),
    ),
    Defence(
        "answers that nobody reads: no more are made",
        "protocol/call_pipeline.py",
        "        await self._flow.wait_for_room()\n",
        "",
        (
            "interaction/test_unread_answers.py::test_memory_stays_bounded_and_every_answer_comes_whole",
        ),
    ),
    Defence(
        "bytecode is made before the right to write it is given up",
        "protocol/startup_checks.py",
        "        import_module(name)\n",
        "        pass\n",
        (
            "interaction/test_bytecode.py::test_first_server_after_an_installation_leaves_bytecode_for_the_next",
        ),
    ),
)
