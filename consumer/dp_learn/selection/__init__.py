"""The penalty: a path of alphas, and the rules that choose on it.

Every rule sees debiased matrices on one scale and nothing else, walks the path from the empty graph downwards, and
says in a `Selection` what it chose and, where the choice needs a word, why.
"""
