"""Times of programs beside each other and beside other runtimes: `devtools.bench`.

report = bench(["old.pte", "new.pte"], [x], rivals=["official", "onnxruntime:m.onnx"])
print(report)              # median, p90, ratio with its interval, load, first call, memory
report.slower_than(0.1)    # rows that are slower by more than 10 %
"""
