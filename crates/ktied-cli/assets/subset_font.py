"""Makes ktied-sans.ttf from DejaVuSans.ttf: python subset_font.py DejaVuSans.ttf ktied-sans.ttf"""

import sys

from fontTools import subset

# Basic Latin, Latin-1, Greek, dashes and quotes, superscripts and subscripts, arrows, and common mathematics.
CHARACTERS = [
    range(0x20, 0x7F), range(0xA0, 0x100), range(0x384, 0x3D7), range(0x1D40, 0x1D41), range(0x1D62, 0x1D67),
    range(0x2009, 0x200B), range(0x2010, 0x2023), range(0x2026, 0x2027), range(0x2030, 0x2035),
    range(0x2070, 0x209D), range(0x20AC, 0x20AD), range(0x2113, 0x2114), range(0x211D, 0x211E),
    range(0x2122, 0x2123), range(0x2190, 0x219A), range(0x21D0, 0x21D5), range(0x2200, 0x2270),
    range(0x2295, 0x229B), range(0x22C5, 0x22C6), range(0x2308, 0x230C), range(0x2C7C, 0x2C7D),
]
# Without kerning and ligatures the width of a text is the sum of its characters' widths.
LEFT_OUT = ["BASE", "FFTM", "GDEF", "GPOS", "GSUB", "JSTF", "MATH", "kern", "DSIG"]
NAMES = {1: "ktied Sans", 2: "Regular", 3: "ktied Sans 1", 4: "ktied Sans", 6: "ktiedSans-Regular"}

options = subset.Options(hinting=False, layout_features=[], name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14], notdef_outline=True,
                         recalc_timestamp=False)
options.drop_tables += LEFT_OUT
font = subset.load_font(sys.argv[1], options)
subsetter = subset.Subsetter(options)
subsetter.populate(unicodes=[code for codes in CHARACTERS for code in codes])
subsetter.subset(font)
for name in font["name"].names:
    name.string = NAMES.get(name.nameID, name.toUnicode())
subset.save_font(font, sys.argv[2], options)
