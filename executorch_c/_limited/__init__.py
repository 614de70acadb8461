"""Work on untrusted data in a process of its own, with limits of processor time and memory."""
