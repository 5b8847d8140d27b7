"""List the defences in places where no marker can stand or no mechanical change removes them."""

from __future__ import annotations

CUSTOM: dict[str, tuple[str, str, str]] = {
    "looking-does-not-write": (
        "storage/database_opener.py",
        "            _read_only_uri(path, without_log=without_log) if read_only else os.fspath(path),\n            flags=(_READONLY | _NAMED_BY_URI if read_only else _READWRITE)",
        "            os.fspath(path),\n            flags=_READWRITE",
    ),
    "anchor-after-flush": (
        "storage/database.py",
        "                flushed = self.before_flush()\n",
        "                flushed = self.before_flush()\n                flushed()\n",
    ),
    "merge-of-others-remembered": (
        "storage/fts_index.py",
        "            state = self._merge_state  # another process may just have asked for the whole\n",
        "            state = _MergeState.PART\n",
    ),
    "search-words-are-parameters": (
        "search/sql_builder.py",
        "            return Statement(_LITERAL, (text,))\n",
        '            return Statement(_LITERAL.replace("?", f"\'{text}\'"))\n',
    ),
    "database-error-says-nothing": (
        "storage/driver.py",
        '_REASONS.get(code, "the database refused a statement"), details',
        "_REASONS.get(code, str(error)), details",
    ),
    "seccomp-open-files-only": (
        "sandbox/seccomp.py",
        "    return [_load(low), *_unless(0, DENY), _load(high), *_unless(0, DENY), ALLOW]\n",
        "    return [_load(low), *_unless(0, DENY), ALLOW]\n",
    ),
    "accounts-file-of-others": (
        "config/accounts.py",
        "        text = read_found_file(path).text\n",
        '        text = path.read_text(encoding="utf-8")\n',
    ),
    "foreign-messages-hidden": (
        "logs/pipeline.py",
        '    return template if record.args else f"[hidden: {len(template)} characters]"\n',
        "    return record.getMessage()\n",
    ),
    "unexpected-error-is-silent": (
        "protocol/call_pipeline.py",
        "            failed = record.failed(report_unexpected(error, while_doing=tool.name))\n",
        "            failed = record.failed(NotariumError(str(error)))\n",
    ),
    "arguments-not-repeated": (
        "protocol/call_pipeline.py",
        'at["msg"]),\n        }\n        for at in error.errors(include_url=False, include_input=False, include_context=False)\n',
        "at['msg'] + str(at['input'])),\n        }\n        for at in error.errors()\n",
    ),
    "certificates-checked": (
        "stores/http.py",
        "    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n",
        "    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n    context.check_hostname = False\n    context.verify_mode = ssl.CERT_NONE\n",
    ),
    "new-id-asked-first": (
        "stores/trilium/writes.py",
        "            made = await self.reader.note(write.note_id)\n",
        "            raise NoteNotFound('not asked for')\n",
    ),
    "hidden-costs-like-missing": (
        "tools/note_lookup.py",
        "    if note is None and not app.library.status().complete:\n",
        "    if note is None and (\n        not app.library.status().complete or app.cache.notes.visibility.hidden_notes([note_id])\n    ):\n",
    ),
    "reading-changes-nothing": (
        "tools/get.py",
        "    _check_version(note, request.local_version)\n",
        '    _check_version(note, request.local_version)\n    app.cache.sync_state.set("last_read", note.id)\n',
    ),
    "new-note-judged-by-place": (
        "library/library.py",
        "(path or self.find_place(content)) if note is None",
        '"" if note is None',
    ),
    "report-without-script": (
        "report/page.html",
        '<meta http-equiv="Content-Security-Policy" content="{{ policy }}">\n',
        "",
    ),
    "new-file-overwrites-none": (
        "stores/vault/file_writer.py",
        "        move(parent, temporary, parent, name)\n    finally:\n",
        "        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)\n    finally:\n",
    ),
    "renaming-overwrites-none": (
        "stores/vault/file_writer.py",
        "        move(parent, name, target, new_name)\n    except FileExistsError:\n",
        "        os.rename(name, new_name, src_dir_fd=parent, dst_dir_fd=target)\n    except FileExistsError:\n",
    ),
}
"""Name -> file below the package, a text that is in it exactly once, the text without the defence."""
