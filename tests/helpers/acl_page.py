"""A page of the ACL style, for tests that set tables on it: add the text and `\\end{document}`."""

ACL_PAGE = r"""\documentclass[11pt]{article}
\usepackage{times}\usepackage[T1]{fontenc}
\usepackage[a4paper,margin=2.5cm]{geometry}\setlength\columnsep{0.6cm}\flushbottom\twocolumn\sloppy
\usepackage[font={footnotesize}]{caption}\usepackage{natbib}\usepackage[breaklinks]{hyperref}
\usepackage{array,booktabs,graphicx}
\begin{document}x
"""  # the measures of the ACL style
