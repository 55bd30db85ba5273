"""Three plots of a report: ratios, times by trial, and times by record size.

    pip install matplotlib pandas
    layermark report last -o x.json
    python3 example.py x.json
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import layermark

report = layermark.load(sys.argv[1] if len(sys.argv) > 1 else "x.json")
results = report.results_frame()
trials = report.trials_frame()

# %% What does each layer cost? A ratio above 1 is slower than the baseline.
compared = results.dropna(subset=["ratio"])
figure, axes = plt.subplots(figsize=(9, 1 + 0.35 * len(compared)))
low, high = compared["ratio_low"].fillna(compared["ratio"]), compared["ratio_high"].fillna(compared["ratio"])
axes.errorbar(
    compared["ratio"],
    [f"{row.point} in {row.layer}" for row in compared.itertuples()],
    xerr=[(compared["ratio"] - low).clip(lower=0), (high - compared["ratio"]).clip(lower=0)],
    fmt="o",
)
axes.axvline(1, color="grey")
axes.set_xscale("log")
axes.set_xlabel(f"time over that of {report.baseline}, 95 % interval")
figure.tight_layout()
figure.savefig("ratios.png")

# %% Did the machine drift during the run?
figure, axes = plt.subplots(figsize=(9, 4))
for name, of in trials.dropna(subset=["op_us"]).groupby("layer"):
    axes.plot(of["seq"], of["op_us"], ".", label=name)
axes.set_yscale("log")
axes.set_xlabel("trial")
axes.set_ylabel("us an operation")
axes.legend()
figure.tight_layout()
figure.savefig("trials.png")

# %% The share of each layer's time that the record size explains.
figure, axes = plt.subplots(figsize=(9, 4))
if "param_record" in results:
    for name, of in results.dropna(subset=["op_us", "param_record"]).groupby("layer"):
        of = of.sort_values("param_record")
        axes.plot(of["param_record"], of["op_us"], "o-", label=name)
    axes.set_xscale("log", base=2)
axes.set_yscale("log")
axes.set_xlabel("bytes of an operation")
axes.set_ylabel("us an operation")
axes.legend()
figure.tight_layout()
figure.savefig("records.png")
