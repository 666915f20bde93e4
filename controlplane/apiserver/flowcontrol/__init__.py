"""API priority and fairness: who waits when there is more to do than can be done. Called by ``filters.priority_and_fairness``.

``configuration`` reads FlowSchemas and PriorityLevelConfigurations, ``classification`` finds a request's, ``width`` guesses
how much work it is, ``queueset`` lets it run or wait, ``borrowing`` moves seats between levels, ``control`` holds all of it
together. Everything but ``control`` is pure: time comes in as an argument. The rules are those of upstream's KEP 1040.
"""
