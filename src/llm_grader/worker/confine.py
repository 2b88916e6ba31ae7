def confine(limits):
    pass
