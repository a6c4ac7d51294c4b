"""One line of each kind that the server knows."""

import weir

at = {"step": 3, "run": "a"}
weir.log({"loss": float("nan"), "acc": float("-inf"), 'odd "name"\n\ud800': 10**400}, **at)
weir.configure_dashboard({"Loss": ["loss"]})
weir.log_image("the key", [[0, 1.0]], caption="two dots", **at)
weir.log_image("the key", b"\xff\xd8\xff", **at)
weir.log_images("the key", [[[0]], [[255]]], **at)
weir.log_table("the key", ["a", "b"], [[1, float("nan")], ["\0", None]], **at)
weir.log_table("the key", ["n"], [[n] for n in range(weir.MAX_ROWS + 1)], **at)
weir.log_histogram("the key", [1, 2, 3, float("inf")], bins=2, **at)
weir.log_confusion_matrix("the key", [[1, 2], [3, 4]], ["x", "y"], **at)
weir.log_roc("the key", [0, 1, 1], [0.1, 0.9, 0.4], **at)
weir.log_pr("the key", [0, 1, 1], [0.1, 0.9, 0.4], **at)
weir.log_text("the key", "a\u2028b \U0001f600", **at)
weir.log_figure("the key", {"data": [{"y": [1, 2]}], "layout": {"title": "t"}}, **at)
