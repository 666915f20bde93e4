"""The Pod Security Standards: ``checks`` say what a pod breaks, ``policy`` what a namespace asks for, ``plugin`` acts on both."""
