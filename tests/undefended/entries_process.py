"""List defences of folders and files, of the process and its sandbox, and of its configuration."""

from __future__ import annotations

from undefended.defence import Defence

_ON_DISK = "security/test_files_on_disk.py"
_FOLDER = "unit/files/test_account_folder.py"
_HARDENING = "unit/sandbox/test_confinement_hardening.py"
_MEMORY = "security/test_process_memory.py"
_SANDBOX = "security/test_sandbox.py::test_only_what_the_server_needs_is_left"
_INPUT_THREAD = (
    "security/test_sandbox.py::test_the_thread_that_reads_input_keeps_nothing_but_what_it_has_open"
)
_SECCOMP = "unit/sandbox/test_seccomp.py"
_CONFIG = "unit/config/test_config_files.py"
_AROUND = "security/test_adversary_surroundings.py"

PROCESS = (
    Defence(
        "a link in the place of a file of ours",
        "files/account_folder.py",
        '    """Check a file of ours: a plain one with one name, and the user\'s alone."""\n'
        "    if stat.S_ISLNK(found.st_mode):\n        return _link(path)\n",
        "    if stat.S_ISLNK(found.st_mode):\n        return None\n",
        (f"{_ON_DISK}::test_a_link_planted_for_any_file_is_refused_and_what_it_points_to_stays",),
        (25,),
    ),
    Defence(
        "a link in the place of the folder",
        "files/account_folder.py",
        '    """Check the account folder or the quarantine: a folder, and the user\'s alone."""\n'
        "    if stat.S_ISLNK(found.st_mode):\n        return _link(path)\n",
        "    if stat.S_ISLNK(found.st_mode):\n        return None\n",
        (f"{_ON_DISK}::test_a_link_planted_before_the_first_start_is_refused",),
        (25,),
    ),
    Defence(
        "a link above the folder",
        "files/account_folder.py",
        "        return None if _system_link(path, found) else _link(path)\n",
        "        return None\n",
        (f"{_FOLDER}::test_a_linked_parent_of_ours_is_refused",),
        (25,),
    ),
    Defence(
        "private files are read without following links",
        "files/private_files.py",
        '_FLAGS = ("O_NOFOLLOW", ',
        "_FLAGS = (",
        ("unit/files/test_private_files.py::test_links_folders_and_pipes_are_not_read",),
        (25,),
    ),
    Defence(
        "locks are opened without following links",
        "files/locks.py",
        "os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC",
        "os.O_RDWR | os.O_CREAT | os.O_CLOEXEC",
        ("security/test_adversary_files.py::test_no_lock_is_taken_through_a_link",),
        (25,),
    ),
    Defence(
        "modes of folder and files",
        "files/account_folder.py",
        "    if found.st_mode & 0o077:\n",
        "    if False:\n",
        (
            f"{_ON_DISK}::test_a_key_file_that_others_can_read_or_change_is_refused",
            f"{_ON_DISK}::test_every_other_entry_point_refuses_an_unsafe_folder_too",
            f"{_FOLDER}::test_an_open_account_folder_is_refused_with_the_command",
        ),
        (26,),
    ),
    Defence(
        "owner of folder and files",
        "files/account_folder.py",
        "    if found.st_uid != os.geteuid():\n",
        "    if False:\n",
        (f"{_FOLDER}::test_somebody_elses_folder_and_file_are_refused_with_chown",),
        (26,),
    ),
    Defence(
        "folders above that others can change",
        "files/account_folder.py",
        "    if changeable and not is_group_private(path, found):\n",
        "    if False:\n",
        (f"{_FOLDER}::test_a_parent_that_others_can_change_is_refused",),
        (26,),
    ),
    Defence(
        "temporary files are new ones",
        "files/private_files.py",
        "    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY",
        "    flags = os.O_CREAT | os.O_WRONLY",
        (f"{_ON_DISK}::test_when_all_temporary_names_are_taken_the_old_file_stays",),
        (27,),
    ),
    Defence(
        "temporary files are private from their first byte",
        "files/private_files.py",
        "os.open(temporary, flags, 0o600), temporary",
        "os.open(temporary, flags, 0o666), temporary",
        (f"{_ON_DISK}::test_with_an_open_umask_every_file_is_still_private",),
        (28,),
    ),
    Defence(
        "umask of the process",
        "sandbox/confinement.py",
        "    os.umask(_PRIVATE_UMASK)\n",
        "",
        (f"{_HARDENING}::test_a_hardened_process_writes_private_files_and_no_cores",),
        (28,),
    ),
    Defence(
        "secrets are wiped from the environment",
        "sandbox/confinement.py",
        "            ctypes.memset(address + start, 0, len(held) - start)\n",
        "            pass\n",
        (
            f"{_HARDENING}::test_a_wiped_variable_is_gone_from_the_environment_the_kernel_shows",
            f"{_MEMORY}::test_secrets_are_gone_from_the_environment_and_no_crash_writes_memory",
        ),
        (31,),
    ),
    Defence(
        "a server wipes them behind its first answer",
        "protocol/server.py",
        "    confinement.wipe_environment(*secret_names())\n",
        "",
        (
            "interaction/test_real_server.py::test_secrets_leave_the_environment_though_the_client_only_shakes_hands",
        ),
        (31,),
    ),
    Defence(
        "the process cannot be looked into",
        "sandbox/confinement.py",
        "        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)\n",
        "        pass\n",
        (f"{_MEMORY}::test_a_peer_is_refused_every_way_into_the_memory",),
        (31,),
    ),
    Defence(
        "no core files",
        "sandbox/confinement.py",
        "        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n",
        "",
        (f"{_MEMORY}::test_secrets_are_gone_from_the_environment_and_no_crash_writes_memory",),
        (31,),
    ),
    Defence(
        "Landlock",
        "sandbox/confinement.py",
        "        version = landlock.restrict(find_allowed_access(self._config, opens=self._opens))\n",
        "        version = landlock.version()\n",
        (_SANDBOX,),
    ),
    Defence(
        "Landlock: the network",
        "sandbox/landlock.py",
        "        asked.append(_CONNECT | _BIND)\n",
        "        asked.append(0)\n",
        (_SANDBOX,),
    ),
    Defence(
        "Landlock: only the folders that are needed",
        "sandbox/confinement.py",
        '    keep = [Path("/dev/null"), *([config.data_dir] if opens else []), *needed.write]\n',
        '    keep = [Path("/"), *([config.data_dir] if opens else []), *needed.write]\n',
        (_SANDBOX,),
    ),
    Defence(
        "Landlock: every thread",
        "sandbox/confinement.py",
        "            landlock.restrict(landlock.Allowed())\n",
        "            pass\n",
        (_INPUT_THREAD,),
    ),
    Defence(
        "seccomp",
        "sandbox/confinement.py",
        "        seccomp.restrict(attributes=needed.attributes, watch=needed.watch)\n",
        "        pass\n",
        (_SANDBOX, "security/test_sandbox.py::test_every_thread_of_a_real_server_is_confined"),
    ),
    Defence(
        "seccomp: attributes of open files alone",
        "sandbox/seccomp.py",
        "    return [_load(low), *_unless(0, DENY), _load(high), *_unless(0, DENY), ALLOW]\n",
        "    return [_load(low), *_unless(0, DENY), ALLOW]\n",
        (f"{_SECCOMP}::test_a_store_may_set_attributes_of_open_files_alone",),
    ),
    Defence(
        "seccomp: every thread",
        "sandbox/confinement.py",
        "        with suppress(OSError):\n            seccomp.restrict()\n",
        "        pass\n",
        (
            _INPUT_THREAD,
            "security/test_sandbox.py::test_every_thread_of_a_real_server_is_confined",
        ),
    ),
    Defence(
        "seccomp: calls that are never made",
        "sandbox/seccomp.py",
        "        steps += _if(number, DENY)\n",
        "        steps += _if(number, ALLOW)\n",
        (_SANDBOX, f"{_SECCOMP}::test_every_call_of_the_list_is_refused_and_others_pass"),
    ),
    Defence(
        "seccomp: sockets of other protocols",
        "sandbox/seccomp.py",
        "        *(step for protocol in (_ANY, _TCP, _UDP) for step in _if(protocol, ALLOW)),\n"
        "        DENY,\n",
        "        ALLOW,\n",
        (_SANDBOX, f"{_SECCOMP}::test_sockets_are_local_or_tcp_or_udp"),
    ),
    Defence(
        "seccomp: connecting by sending",
        "sandbox/seccomp.py",
        "(_IF_ANY_BIT, 0, 1, _CONNECT_AND_SEND), DENY, ALLOW]",
        "ALLOW]",
        (_SANDBOX, f"{_SECCOMP}::test_nothing_is_connected_by_sending"),
    ),
    Defence(
        "seccomp: keys of a terminal, flags of files",
        "sandbox/seccomp.py",
        "_if(control, DENY)",
        "_if(control, ALLOW)",
        (
            _SANDBOX,
            f"{_SECCOMP}::test_no_key_of_a_terminal_is_pressed_and_no_flag_of_a_file_changed",
        ),
    ),
    Defence(
        "seccomp: a TCP socket stays one",
        "sandbox/seccomp.py",
        "_if(_UPPER_PROTOCOL, DENY)",
        "_if(_UPPER_PROTOCOL, ALLOW)",
        (_SANDBOX, f"{_SECCOMP}::test_a_tcp_socket_stays_one"),
    ),
    Defence(
        "seccomp: no process with a view of its own",
        "sandbox/seccomp.py",
        "(_IF_ANY_BIT, 0, 1, _NAMESPACES), DENY, ALLOW)",
        "ALLOW)",
        (
            _SANDBOX,
            f"{_SECCOMP}::test_no_process_or_thread_starts_in_a_namespace_of_its_own",
        ),
    ),
    Defence(
        "seccomp: no call whose flags lie in memory",
        "sandbox/seccomp.py",
        '_if(call["clone3"], _UNKNOWN)',
        '_if(call["clone3"], ALLOW)',
        (
            _SANDBOX,
            f"{_SECCOMP}::test_clone3_is_unknown_so_that_libraries_go_back_to_clone",
        ),
    ),
    Defence(
        "seccomp: calls of another architecture",
        "sandbox/seccomp.py",
        "    steps = [_load(_ARCHITECTURE), *_unless(where.audit, DENY), _load(_NUMBER)]\n",
        "    steps = [_load(_NUMBER)]\n",
        (f"{_SECCOMP}::test_calls_of_another_architecture_are_refused",),
    ),
    Defence(
        "seccomp: an emulator is noticed first",
        "sandbox/seccomp.py",
        "    if ctypes.get_errno() != errno.E2BIG:\n",
        "    if False:\n",
        (f"{_SECCOMP}::test_calls_that_an_emulator_makes_are_seen_before_anything_is_given_up",),
    ),
    Defence(
        "what a .env of the working folder may set",
        "config/sources.py",
        "    if text is None or source.level <= trust:\n",
        "    if True:\n",
        (
            f"{_CONFIG}::test_a_dotenv_cannot_redirect_or_loosen_anything",
            f"{_AROUND}::test_no_file_in_the_working_folder_is_run_or_obeyed",
        ),
        (44,),
    ),
    Defence(
        "a .env that others can write",
        "config/text_files.py",
        "    if problem := _find_file_problem(path, opened.status) or in_folder:\n",
        "    if problem := None:\n",
        (f"{_CONFIG}::test_a_dotenv_that_others_may_have_written_is_ignored_with_the_reason",),
        (44,),
    ),
    Defence(
        "the policy file is the user's alone",
        "config/policy_file.py",
        "    if opened.status.st_mode & (_OTHERS if ours else _OTHERS_CHANGE):\n",
        "    if False:\n",
        (
            "unit/config/test_config_policy.py::test_a_file_that_others_may_read_or_change_is_refused",
        ),
        (39,),
    ),
    Defence(
        "a policy that cannot be trusted stops the start",
        "config/policy_file.py",
        "    if problem := _find_problem(path, opened):\n",
        "    if (problem := _find_problem(path, opened)) and False:\n",
        ("interaction/test_policy.py::test_a_policy_that_cannot_be_trusted_stops_the_start",),
        (39,),
    ),
    Defence(
        "no folder above the policy file is anybody else's to change",
        "config/policy_file.py",
        "        if folder in {place, real} or not is_group_private(folder, status):\n",
        "        if folder in {place, real} or status.st_mode & stat.S_IWOTH:\n",
        ("unit/config/test_config_policy.py::test_a_folder_others_may_change_is_refused",),
        (39,),
    ),
    Defence(
        "the folders that a link leads through count too",
        "config/policy_file.py",
        "*place.parents, *real.parents",
        "*place.parents",
        ("unit/config/test_config_policy.py::test_a_folder_that_a_link_leads_through_counts_too",),
        (39,),
    ),
    Defence(
        "a server takes old records away",
        "protocol/event_loop.py",
        "    app.audit.tidy()\n",
        "",
        (
            "cli/test_cli_audit.py::test_a_server_takes_records_away_when_the_days_of_its_setting_are_over",
        ),
    ),
    Defence(
        "a server overwrites the secrets of its environment",
        "protocol/server.py",
        "    confinement.wipe_environment(*secret_names())\n",
        "",
        (
            "unit/sandbox/test_confinement_hardening.py::test_server_and_commands_overwrite_every_secret_of_their_environment",
        ),
        (31,),
    ),
    Defence(
        "every command hides the secrets of its environment before it asks or works",
        "cli/main.py",
        "    confinement.hide_secrets(*config.secret_names())  # before anything asks or works\n",
        "",
        (
            "security/test_command_environment.py::test_no_secret_is_shown_while_a_command_asks",
            "security/test_command_environment.py::test_no_secret_is_shown_while_a_command_works",
        ),
        (31,),
    ),
    Defence(
        "a command overwrites the secrets of its environment",
        "cli/command_context.py",
        "    confinement.wipe_environment(*config.secret_names())\n",
        "",
        (
            "unit/sandbox/test_confinement_hardening.py::test_server_and_commands_overwrite_every_secret_of_their_environment",
        ),
        (31,),
    ),
    Defence(
        "a connection that would write temporary files is refused",
        "storage/database_opener.py",
        ' or database.number("PRAGMA temp_store") != _TEMP_STORE_MEMORY',
        "",
        (
            "security/test_database_leaks.py::test_a_connection_that_would_write_temporary_files_is_refused",
        ),
        (29,),
    ),
    Defence(
        "an act is on the disk before it is begun",
        "storage/audit_log.py",
        "            with self._db.transaction(durable=durable):\n"
        "                number = self.table.append([*self._due(), entry], durable=durable)",
        "            with self._db.transaction(durable=False):\n"
        "                number = self.table.append([*self._due(), entry], durable=False)",
        (
            "unit/storage/test_audit_table.py::test_an_act_and_its_outcome_wait_for_the_disk_and_a_read_does_not",
        ),
    ),
    Defence(
        "a write is on the disk before it is sent",
        "sync/push.py",
        "            await self._journal.flush()\n",
        "            pass\n",
        (
            "unit/sync/test_writer_interruptions.py::test_writes_that_come_together_share_a_flush",
            "unit/sync/test_writer_interruptions.py::test_nothing_is_sent_if_the_disk_does_not_take_what_was_recorded",
        ),
    ),
    Defence(
        "a saved note and its outcome are on the disk before the answer",
        "protocol/call_pipeline.py",
        "                await self.holder.opened.cache.flush()\n",
        "                pass\n",
        (
            "crash/test_save_crash.py::test_a_save_costs_two_flushed_transactions",
            "crash/test_save_crash.py::test_after_a_power_cut_what_was_sent_is_on_record_and_what_was_answered_is_stored",
        ),
    ),
)
