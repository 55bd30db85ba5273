"""The reader, and what other programs' parsers say of the exports. `scripts/test-python.sh` makes the
files and names their directory in REPORTS."""

import gzip
import json
import os
import re
import runpy
import sys
import tempfile
import unittest
from pathlib import Path

import layermark

REPORTS = Path(os.environ["REPORTS"])


class Reader(unittest.TestCase):
    def setUp(self) -> None:
        self.path = REPORTS / "x.json"
        self.raw = json.loads(self.path.read_text(encoding="utf-8"))
        self.report = layermark.load(self.path)

    def test_every_result_is_that_of_the_file(self) -> None:
        self.assertEqual(self.report.run, self.raw["run"])
        self.assertEqual(len(self.report.results), len(self.raw["results"]))
        self.assertGreater(len(self.report.results), 2)
        for row, raw in zip(self.report.results, self.raw["results"]):
            self.assertEqual((row.id, row.point, row.layer), (raw["id"], raw["label"], raw["layer"]))
            self.assertEqual(row.op_us, raw["op_us"])
            ratio = raw["ratio"]
            self.assertEqual(row.ratio, ratio and ratio["estimate"])
            ends = ratio and ratio["interval"]
            self.assertEqual([row.ratio_low, row.ratio_high], ends or [None, None])
            self.assertEqual(row.verdict, raw["verdict"])

    def test_whether_to_believe_it_is_a_word(self) -> None:
        trusted = self.raw["trusted"]
        self.assertIn(self.report.trusted, ("yes", "with care", "no"))
        self.assertEqual(self.report.trusted, trusted["word"])
        self.assertEqual(self.report.distrust, trusted.get("reason"))
        doubted = layermark.loads(json.dumps({**self.raw, "trusted": {"word": "no", "reason": "it is odd"}}))
        self.assertEqual((doubted.trusted, doubted.distrust), ("no", "it is odd"))
        older = {name: value for name, value in self.raw.items() if name != "trusted"}
        self.assertIsNone(layermark.loads(json.dumps(older)).trusted)

    def test_trials_are_in_the_order_of_the_run(self) -> None:
        self.assertEqual(len(self.report.trials), len(self.raw["trials"]))
        seqs = [trial.seq for trial in self.report.trials]
        self.assertEqual(seqs, sorted(seqs))
        self.assertTrue(all(trial.op_us or trial.error for trial in self.report.trials))

    def test_a_layer_and_a_point_select_results(self) -> None:
        baseline = self.report.baseline
        self.assertIsNotNone(baseline)
        rows = list(self.report.of(layer=baseline))
        self.assertTrue(rows and all(row.ratio is None for row in rows))
        one = list(self.report.of(layer=baseline, point=rows[0].point))
        self.assertEqual(one, [rows[0]])

    def test_a_packed_file_is_the_same(self) -> None:
        with tempfile.TemporaryDirectory() as temp:
            packed = Path(temp) / "x.json.gz"
            packed.write_bytes(gzip.compress(self.path.read_bytes()))
            self.assertEqual(layermark.load(packed), self.report)

    def test_a_damaged_packed_file_is_refused(self) -> None:
        whole = gzip.compress(self.path.read_bytes())
        # Ends early, has other bytes within, and has another sum than its bytes.
        damaged = [whole[: len(whole) // 2], whole[:10] + b"\xff" * 40 + whole[50:], whole[:-8] + bytes(8)]
        with tempfile.TemporaryDirectory() as temp:
            packed = Path(temp) / "x.json.gz"
            for data in damaged:
                packed.write_bytes(data)
                with self.assertRaisesRegex(layermark.ReportError, re.escape(str(packed))):
                    layermark.load(packed)

    def test_what_is_no_report_is_refused(self) -> None:
        for text, words in [
            ("", "not JSON"),
            ("[]", "not a report"),
            ('{"schema": "layermark.report/9"}', "layermark.report/9"),
            ('{"schema": "layermark.report/1"}', "lacks 'run'"),
        ]:
            with self.assertRaisesRegex(layermark.ReportError, re.escape(words)):
                layermark.loads(text)
        with self.assertRaises(OSError):
            layermark.load(REPORTS / "absent.json")

    def test_frames_have_a_row_each(self) -> None:
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is missing; hint: pip install pandas")
        results, trials = self.report.results_frame(), self.report.trials_frame()
        self.assertEqual(len(results), len(self.report.results))
        self.assertEqual(len(trials), len(self.report.trials))
        self.assertEqual(list(results["op_us"].dropna()), [r.op_us for r in self.report.results if r.op_us])
        self.assertIn("param_record", results.columns)

    def test_the_example_draws_three_plots(self) -> None:
        try:
            import matplotlib  # noqa: F401
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("matplotlib or pandas is missing; hint: pip install matplotlib pandas")
        example = Path(__file__).parent.parent / "example.py"
        here, argv = os.getcwd(), sys.argv
        with tempfile.TemporaryDirectory() as temp:
            try:
                os.chdir(temp)
                sys.argv = ["example.py", str(self.path)]
                runpy.run_path(str(example))
            finally:
                os.chdir(here)
                sys.argv = argv
            for name in ["ratios.png", "trials.png", "records.png"]:
                self.assertTrue((Path(temp) / name).read_bytes().startswith(b"\x89PNG"), name)


class Exports(unittest.TestCase):
    """Each by the parser of the program that reads it, where a registry has it."""

    def setUp(self) -> None:
        self.report = layermark.load(REPORTS / "x.json")
        control = {layer.name for layer in self.report.layers if layer.control}
        self.rows = [r for r in self.report.results if r.layer not in control and r.op_us is not None]

    def test_prometheus_reads_openmetrics(self) -> None:
        try:
            from prometheus_client.openmetrics.parser import text_string_to_metric_families
            from prometheus_client.parser import text_string_to_metric_families as of_text
        except ImportError:
            self.skipTest("prometheus_client is missing; hint: pip install prometheus_client")
        text = (REPORTS / "x.prom").read_text(encoding="utf-8")
        for parse in (text_string_to_metric_families, of_text):
            families = {family.name: family for family in parse(text)}
            samples = families["layermark_operation_seconds"].samples
            found = {(s.labels["point"], s.labels["layer"]): s.value for s in samples}
            wanted = {(r.point, r.layer): r.op_us / 1e6 for r in self.rows}
            self.assertEqual(found.keys(), wanted.keys())
            for key, value in wanted.items():
                self.assertAlmostEqual(found[key], value, delta=value * 1e-9)
            ratios = families["layermark_ratio"].samples
            self.assertEqual(len(ratios), sum(r.ratio is not None for r in self.rows))

    def test_bencher_metric_format(self) -> None:
        # Bencher's parser is in no registry: this is what its reference says of the format.
        metrics = json.loads((REPORTS / "x.bmf.json").read_text(encoding="utf-8"))
        self.assertEqual(len(metrics), len(self.rows))
        for measures in metrics.values():
            for name, metric in measures.items():
                self.assertRegex(name, r"^[a-z-]+$")
                self.assertIn("value", metric)
                self.assertLessEqual(metric.keys(), {"value", "lower_value", "upper_value"})
                if "lower_value" in metric:
                    self.assertLessEqual(metric["lower_value"], metric["value"])
                    self.assertLessEqual(metric["value"], metric["upper_value"])

    def test_github_action_benchmark(self) -> None:
        # The action is in no registry: this is what its extractor asks of `customSmallerIsBetter`.
        entries = json.loads((REPORTS / "x.github-benchmark.json").read_text(encoding="utf-8"))
        self.assertEqual(len(entries), len(self.rows))
        for entry in entries:
            self.assertIsInstance(entry["value"], (int, float))
            for key in ("name", "unit", "range", "extra"):
                self.assertIsInstance(entry.get(key, ""), str)


if __name__ == "__main__":
    unittest.main()
