"""Run the attack list and print which attacks are defended; the list is `ATTACKS`.

    python scripts/attacks.py                # the fast tests: minutes
    python scripts/attacks.py --all          # also the slow ones: a real browser, Deno, MLflow's pages
    python scripts/attacks.py browser udp    # attacks whose sentence has one of these words

Exit code 1: an attack is not defended, or its tests could not run. A new defence needs a line here.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SANDBOX, BROWSER, HTTP, FILES = (f"tests/mas/tools/{each}" for each in ("sandbox", "browser", "http", "files"))

# Attack: the tests that make it, each a file or `file::test`.
ATTACKS: dict[str, tuple[str, ...]] = {
    "Python code reads or changes files of the machine": (f"{SANDBOX}/test_jail_files.py",),
    "Python code reaches a server or a socket": (f"{SANDBOX}/test_jail_network.py",),
    "Python code starts a process, gains a privilege or finds a key": (f"{SANDBOX}/test_jail_processes.py",),
    "Python code makes a system call that it does not need": (f"{SANDBOX}/test_seccomp.py",),
    "Python code uses up memory, disk, time or threads, or forges a reply": (f"{SANDBOX}/test_bombs.py",),
    "Python code in Deno does any of this": (f"{SANDBOX}/test_deno.py",),
    "A web page in the browser reaches the machine's network": (
        f"{BROWSER}/test_proxy.py",
        f"{BROWSER}/test_real_browser.py::test_no_way_leads_inside",
    ),
    "A web page in the browser sends a datagram (WebRTC over UDP)": (
        f"{BROWSER}/test_jail.py",
        f"{BROWSER}/test_real_browser.py::test_no_datagram_leaves_the_browser",
    ),
    "A program that is started finds a key": (
        f"{BROWSER}/test_start.py::test_the_server_is_started_without_keys",
        "tests/mas/runtime/security/test_child_environment.py",
        "tests/eval/mlflow_export/test_exporter_launcher.py::"
        "test_the_exporter_gets_what_leads_to_mlflow_and_no_key_of_a_model",
    ),
    "An address, a redirect or a name leads to the machine or its network": (
        f"{HTTP}/test_url_policy.py",
        f"{HTTP}/test_transport.py",
    ),
    "A page that gives the benchmark's answers away is read": (f"{HTTP}/test_blocked_sites.py",),
    "An office file or archive unpacks without end, or names other files": (
        f"{FILES}/test_zip_package.py",
        f"{FILES}/readers/test_archive.py",
    ),
    "A hostile file or page hangs or kills its reader, connects, or finds a key": (
        f"{FILES}/test_reader_pool.py",
        "tests/mas/tools/test_hostile_inputs.py",
        "tests/mas/tools/web/test_read_page.py::test_the_deadline_ends_the_process_that_reads_a_page",
    ),
    "An old Office file runs macros, or follows links to files or servers": (f"{FILES}/readers/test_converted.py",),
    "A question's attachment is a file elsewhere": (
        "tests/mas/tools/test_attachments.py",
        "tests/eval/benchmarks/test_rows.py::test_a_link_out_of_the_folder_is_bad",
    ),
    "An expression for the calculator runs code": ("tests/mas/tools/test_calculator.py",),
    "A text of a page, model or dataset controls the terminal": (
        "tests/mas/runtime/test_terminal.py",
        "tests/eval/execution/test_console.py",
        "tests/eval/test_terminal_output.py",
    ),
    "A run folder from elsewhere runs code, connects, or is signed as our own": (
        "tests/eval/test_foreign_folder.py",
        "tests/optimize/test_foreign_tuning.py",
        "tests/eval/runs/test_foreign_run.py",
        "tests/eval/runs/test_signature.py",
    ),
    "Somebody edits a tuning run between two sessions: candidate, parent, scores, sealed answers, verdict or program": (
        "tests/optimize/test_tampering.py",
        "tests/optimize/session/test_signed_files.py",
        "tests/optimize/session/test_signed_answers.py",
    ),
    "A run's database has views, triggers or endless queries, or names other files": (
        "tests/eval/runs/test_sqlite_file.py",
    ),
    "A page passes for the harness's own words": ("tests/mas/runtime/test_untrusted.py",),
    "A key is in a log, a cache, a record or in MLflow": (
        "tests/mas/runtime/security/test_redaction.py",
        "tests/eval/runs/test_logs.py::test_secrets_are_nowhere_in_the_logs",
        "tests/eval/runs/test_tool_cache.py::test_no_secret_is_kept",
        "tests/test_secrets_stay_secret.py",
        "tests/optimize/test_tuning_secrets.py",
    ),
    "A picture in an answer is loaded by who looks at it in MLflow": (
        "tests/eval/mlflow_export/test_values.py",
        "tests/test_mlflow_pages.py::test_no_picture_of_another_host_is_loaded",
    ),
    "A question, answer, prompt, file name or tool result runs code on a page, or is a formula in its export": (
        "tests/eval/reports/html/test_templates.py",
        "tests/eval/reports/run_report/test_page.py::test_data_stays_text",
        "tests/pages/test_report.py::test_hostile_texts_execute_nothing_and_leave_no_formula_in_an_export",
        "tests/pages/test_base.py::test_texts_of_charts_and_rows_execute_nothing",
    ),
    "Another user, host name or site, or a text in a run, uses the viewer": (
        "tests/eval/viewer/test_application.py",
        "tests/eval/viewer/test_live_run.py::test_a_log_that_is_a_link_or_a_pipe_is_not_read",
        "tests/eval/test_view.py::test_hostile_texts_execute_nothing_and_other_origins_read_nothing",
    ),
    "The gold answer is in a candidate prompt": ("tests/optimize/publishing/test_leaks.py",),
    "A unique gold answer passes for a label": (
        "tests/eval/scorers/test_labels.py",
        "tests/optimize/publishing/test_label_leaks.py",
        "tests/optimize/feedback/test_label_feedback.py",
    ),
}


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Outcomes:
    """Outcome of each test by its id, collected as a plugin of pytest."""

    found: dict[str, str] = field(default_factory=dict)  # "passed", "skipped", "failed", or "slow": left out
    reasons: dict[str, str] = field(default_factory=dict)  # of skipped tests

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.found.update(dict.fromkeys((item.nodeid for item in items), "slow"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            worse = self.found.get(report.nodeid) == "failed"
            self.found[report.nodeid] = "failed" if worse else report.outcome
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[report.nodeid] = str(report.longrepr[2]).removeprefix("Skipped: ")

    def describe(self, tests: Sequence[str]) -> tuple[str, str]:
        """Return the verdict on an attack and a remark."""
        begins = tuple(f"{test}{end}" for test in tests for end in ("::", "["))
        ids = [each for each in self.found if each in tests or each.startswith(begins)]
        count = Counter(self.found[each] for each in ids)
        why = next((self.reasons[each] for each in ids if each in self.reasons), "")
        remarks = [f"{count['skipped']} skipped: {why}"] if count["skipped"] else []
        remarks += [f"{count['slow']} slow ones left out (--all)"] if count["slow"] else []
        if count["failed"]:
            return "NOT DEFENDED", f"{count['failed']} of {len(ids)} tests failed"
        if not count["passed"]:
            return "not checked", ", ".join(remarks) or "its tests could not be collected"
        return "defended", ", ".join([f"{count['passed']} tests", *remarks])


def main(arguments: Sequence[str]) -> int:
    """Run the tests of the chosen attacks and print the table."""
    parser = argparse.ArgumentParser(description="Run the attack list.")
    parser.add_argument("words", nargs="*", help="only attacks whose sentence has one of these words")
    parser.add_argument("--all", action="store_true", help="also slow tests")
    options = parser.parse_args(arguments)
    wanted = [word.lower() for word in options.words] or [""]
    chosen = {attack: tests for attack, tests in ATTACKS.items() if any(word in attack.lower() for word in wanted)}
    if not chosen:
        print(f"error: no attack has one of the words {', '.join(options.words)}; without words all are run")
        return 1
    outcomes = Outcomes()
    targets = list(dict.fromkeys(test for tests in chosen.values() for test in tests))
    code = pytest.main(
        ["--quiet", f"--rootdir={ROOT}", *([] if options.all else ["-m", "not slow"]), *targets], plugins=[outcomes]
    )
    rows = {attack: outcomes.describe(tests) for attack, tests in chosen.items()}
    print()
    width = max(map(len, rows))
    for attack, (verdict, remark) in rows.items():
        print(f"{attack:{width}}  {verdict:12}  {remark}")
    ran = code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    return 0 if ran and all(verdict != "NOT DEFENDED" for verdict, _ in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
