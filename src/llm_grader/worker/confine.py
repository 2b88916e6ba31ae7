def confine(limits): pass
