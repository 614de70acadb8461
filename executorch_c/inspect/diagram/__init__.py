"""A method as a graph: `nodes`, made by `build`, grouped in `layers` if many, drawn by `draw`."""
