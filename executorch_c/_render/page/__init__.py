"""Pages with graphs: tools fill `model`, `layout` places it, `data` and `document` write it."""
