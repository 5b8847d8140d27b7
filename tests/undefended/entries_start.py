"""The start of a server: what comes before the configuration, the sandbox and the protocol library."""

from __future__ import annotations

from undefended.defence import Defence

_PRELUDE = "unit/protocol/test_early_replies.py"
_DIRECT = "unit/protocol/test_direct_calls.py"
_DIRECT_ANSWERS = "interaction/test_direct_answers.py"
_FRONT = "unit/protocol/test_static_replies.py"
_PROMPTS = "cli/test_cli_prompts.py"

START = (
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
        "prelude: a .env may hold a policy",
        "protocol/early_replies.py",
        ' or os.path.lexists(".env"):\n',
        ":\n",
        (f"{_PRELUDE}::test_policy_and_settings_in_files_are_left_to_the_configuration",),
    ),
    Defence(
        "prelude: a policy file",
        "protocol/early_replies.py",
        '        and not os.path.lexists(folder + "/" + _POLICY)\n',
        "",
        (f"{_PRELUDE}::test_policy_and_settings_in_files_are_left_to_the_configuration",),
    ),
    Defence(
        "prelude: variables that narrow the tools",
        "protocol/early_replies.py",
        "any(name.startswith(_ODD) for name in environ)",
        "False",
        (f"{_PRELUDE}::test_whatever_may_narrow_the_tools_is_left_to_the_configuration",),
    ),
    Defence(
        "prelude: encryption switched off",
        "protocol/early_replies.py",
        "    if _MODE in environ or ",
        "    if ",
        (
            f"{_PRELUDE}::test_what_may_be_refused_or_mean_another_folder_is_left_to_the_configuration",
        ),
    ),
    Defence(
        "prelude: an account is named",
        "protocol/early_replies.py",
        '        bool(environ.get(_REQUIRED, "").strip())\n',
        "        True\n",
        (
            f"{_PRELUDE}::test_what_may_be_refused_or_mean_another_folder_is_left_to_the_configuration",
        ),
    ),
    Defence(
        "prelude: a folder written in another way",
        "protocol/early_replies.py",
        "        and folder == os.path.normpath(folder.strip())\n",
        "",
        (
            f"{_PRELUDE}::test_what_may_be_refused_or_mean_another_folder_is_left_to_the_configuration",
        ),
    ),
    Defence(
        "prelude: a folder relative to the working folder",
        "protocol/early_replies.py",
        '        and folder.startswith("/")\n',
        "",
        (f"{_PRELUDE}::test_whatever_may_narrow_the_tools_is_left_to_the_configuration",),
    ),
    Defence(
        "prelude: folders that others can read or change",
        "protocol/early_replies.py",
        "        and _private(folder)\n",
        "",
        (f"{_PRELUDE}::test_folders_that_others_can_read_or_change_are_left_to_the_checks",),
    ),
    Defence(
        "prelude: a file with a second name",
        "protocol/path_check.py",
        "(stat.S_ISREG(found.st_mode) and found.st_nlink == 1)",
        "stat.S_ISREG(found.st_mode)",
        (f"{_PRELUDE}::test_folders_that_others_can_read_or_change_are_left_to_the_checks",),
    ),
    Defence(
        "prelude: one driver",
        "protocol/early_replies.py",
        "            return len(named) == 1\n",
        "            return True\n",
        (f"{_PRELUDE}::test_a_driver_that_is_not_there_once_is_left_to_the_checks",),
    ),
    Defence(
        "a direct reading can be called off",
        "protocol/direct_calls.py",
        "                scope.cancel()\n",
        "                pass\n",
        (
            f"{_DIRECT}::test_a_reading_that_is_called_off_has_no_answer_and_the_others_have_theirs",
            "interaction/test_direct_answers.py::test_call_that_waits_for_its_notes_can_be_called_off",
        ),
    ),
    Defence(
        "direct readings: how many",
        "protocol/backlog.py",
        "self._requests += size + CALL_BYTES",
        "self._requests += size",
        (f"{_DIRECT}::test_the_backlog_is_full_while_too_much_is_in_hand",),
    ),
    Defence(
        "direct readings: who waits at the end is told, and it is on record",
        "protocol/event_loop.py",
        "        direct.break_off()\n",
        "",
        (_DIRECT_ANSWERS + "::test_who_still_waits_when_time_is_up_is_told_and_it_is_on_record",),
    ),
    Defence(
        "direct readings: long answers are whole at the end",
        "protocol/transport.py",
        "            await self._beside()\n",
        "",
        (_DIRECT_ANSWERS + "::test_long_answers_are_whole_though_the_client_has_closed_its_end",),
    ),
    Defence(
        "direct readings: none is begun behind a signal",
        "protocol/sdk_server.py",
        "                if not transport.stopping:\n",
        "                if True:\n",
        ("interaction/test_direct_answers.py::test_nothing_is_begun_behind_a_signal",),
    ),
    Defence(
        "the front takes nothing that the library refuses: nesting",
        "protocol/plain_messages.py",
        ' or line.count(b"{") + line.count(b"[") > _MOST_OPENED',
        "",
        (
            "unit/protocol/test_static_replies.py::test_handshake_that_the_engine_would_refuse_is_left_to_it",
        ),
    ),
    Defence(
        "the front takes nothing that the library refuses: half a character",
        "protocol/plain_messages.py",
        "            json.dumps(message, ensure_ascii=False).encode()  # fails at half a character\n",
        "            pass\n",
        (
            "unit/protocol/test_static_replies.py::test_handshake_that_the_engine_would_refuse_is_left_to_it",
        ),
    ),
    Defence(
        "a signal ends a prompt also when it comes just before the wait",
        "cli/signals.py",
        "            signal.pthread_kill(waits, signal.SIGALRM)\n",
        "            pass\n",
        (_PROMPTS + "::test_a_signal_that_interrupts_no_wait_ends_the_command_all_the_same",),
    ),
    Defence(
        "direct readings: how many bytes",
        "protocol/backlog.py",
        "self._requests += size + CALL_BYTES",
        "self._requests += CALL_BYTES",
        (f"{_DIRECT}::test_the_backlog_is_full_while_too_much_is_in_hand",),
    ),
    Defence(
        "answers that nobody reads: no more requests are read",
        "protocol/backlog.py",
        "self._requests > MOST_REQUESTS or not self.has_room",
        "self._requests > MOST_REQUESTS",
        (f"{_DIRECT}::test_the_backlog_is_full_while_replies_are_not_taken",),
    ),
    Defence(
        "answers that nobody reads: no more are made",
        "protocol/call_pipeline.py",
        "        await self._backlog.room()\n",
        "",
        (
            "interaction/test_unread_answers.py::test_memory_stays_bounded_and_every_answer_comes_whole",
        ),
    ),
    Defence(
        "bytecode is made before the right to write it is given up",
        "protocol/bytecode_cache.py",
        "        import_module(name)\n",
        "        pass\n",
        (
            "interaction/test_bytecode.py::test_first_server_after_an_installation_leaves_bytecode_for_the_next",
        ),
    ),
)
