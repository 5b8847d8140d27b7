"""Give up rights that the server does not need: Landlock, seccomp, process hardening."""
