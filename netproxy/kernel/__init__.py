"""The tools that change the kernel, each real and fake: nothing above this room starts a process or opens netlink."""
