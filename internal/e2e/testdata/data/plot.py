"""Two cities' temperatures: the mean of each to standard output, and a plot."""
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

days = pd.read_csv("weather.csv", parse_dates=["date"])
print(len(days))
months = days.pivot_table(index=days.date.dt.to_period("M"), columns="location", values="temp_max", aggfunc="mean")
for city, mean in days.groupby("location").temp_max.mean().items():
    print(f"{city} {mean:.4f}")
assert np.isfinite(months.to_numpy()).all()
ax = months.plot(figsize=(8, 4), color=["#ff0000", "#0000ff"])
ax.set_title("mean high of a month")
plt.savefig("plot.png", dpi=100)
