"""The numbers of README, RESULTS and the other pages; their sentences are the templates of
`texts/`.
"""

# notebook 12 imports it from here
from companion.setup import studies as studies
