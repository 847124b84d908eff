"""The papers' data sets: which are read, from where they can be had, and which are not to be had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reproduction.tables import markdown_table

Floats = NDArray[np.float64]

SOURCES = {
    "sachs": "Cell signalling (Sachs et al. 2005): 7466 x 11, and the edges of the consensus network. "
    "github.com/cmu-phil/example-causal-datasets, folder real/sachs, CC0",
    "congress_les": "Legislative effectiveness scores, 93rd to 102nd Congress (Volden & Wiseman). thelawmakers.org, "
    "data download; no licence is stated",
    "soil": "88 soils (Lauber et al. 2009): 89 x 116 counts. github.com/fabian-sp/GGLasso, folder data/soil, MIT",
    "chickenpox": "Hungarian chickenpox cases (Rozemberczki et al. 2021): 522 weeks x 20 counties, and which of "
    "these are neighbours. UCI Machine Learning Repository, data set 580, CC BY 4.0",
    "powergrid": "Topologies of 14, 33 and 118 buses. github.com/MATPOWER/matpower, folder data: case14, case33bw, "
    "case118; the licence does not cover the cases",
    "colon": "Colon cancer (Alon et al. 1999): 62 x 2000. github.com/ramhiser/datamicroarray, data/alon.RData, MIT",
    "ionosphere": "Ionosphere: 351 x 34. UCI Machine Learning Repository",
    "airfoil": "Airfoil self-noise: 1503 x 6. UCI Machine Learning Repository",
    "adult": "Adult (Becker & Kohavi 1996): 48,842 x 15. UCI Machine Learning Repository, CC BY 4.0",
}


def describe_data_sets() -> str:
    """Return a table of what each folder of $DPGRAPH_DATA holds, and where it can be had."""
    return markdown_table(["folder", "what it is, and where it can be had"], SOURCES.items(), left=2)


def cell_signalling(data: Path, *, logarithms: bool = False) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the 7466 cells, every column standardised, and the 17 edges of the validated network.

    Standardised columns give the epsilon that Guo et al. print. Or return logarithms, every column centred.
    """
    frame = pd.read_csv(data / "sachs" / "sachs.csv")
    edges = pd.read_csv(data / "sachs" / "sachs_edges.csv")
    edges = edges[edges["in_bnlearn17_undirected"] == 1]
    values = frame.to_numpy(dtype=float)
    logs = np.log(values)
    return logs - logs.mean(axis=0) if logarithms else standardise(values), adjacency(list(frame.columns), edges)


def congress(data: Path) -> Floats:
    """Return the scores of the 74 members of the House with a score in all ten Congresses, standardised."""
    values = pd.read_csv(data / "congress_les" / "les_house_93_102_wide.csv")
    values = values[[name for name in values if name.startswith("icpsr_")]].to_numpy(dtype=float)
    return standardise(values)


def soil(data: Path) -> Floats:
    """Return the counts of 116 taxa in 89 soils, plus 1, as Guo et al. take them."""
    values = pd.read_csv(data / "soil" / "soil_116_pseudocount1.csv")
    return values[[name for name in values if name.startswith("OTU_")]].to_numpy(dtype=float)


def chickenpox(data: Path) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the counts of 522 weeks in 20 counties as they are, and which of these are neighbours: 41 pairs."""
    counts = pd.read_csv(data / "chickenpox" / "hungary_chickenpox.csv").drop(columns="Date")
    edges = pd.read_csv(data / "chickenpox" / "hungary_county_edges.csv")
    edges = edges[edges["name_1"] != edges["name_2"]].rename(columns={"name_1": "source", "name_2": "target"})
    return counts.to_numpy(dtype=float), adjacency(list(counts.columns), edges)


def weeks_of_the_year(data: Path) -> NDArray[np.int64]:
    """Return the week of the year of every row of the chickenpox counts, 1 to 52; week 53 counts as 52."""
    dates = pd.read_csv(data / "chickenpox" / "hungary_chickenpox.csv")["Date"]
    weeks = pd.to_datetime(dates, format="%d/%m/%Y").dt.isocalendar().week
    return weeks.clip(upper=52).to_numpy(dtype=np.int64)


def standardise(values: Floats) -> Floats:
    """Return the columns with mean 0 and standard deviation 1."""
    standard: Floats = (values - values.mean(axis=0)) / values.std(axis=0)
    return standard


def adjacency(names: list[str], edges: pd.DataFrame) -> NDArray[np.bool_]:
    """Return the symmetric matrix of undirected edges, given by columns `source` and `target`."""
    places = {name: index for index, name in enumerate(names)}
    linked = np.zeros((len(names), len(names)), dtype=bool)
    for source, target in zip(edges["source"], edges["target"], strict=True):
        linked[places[source], places[target]] = linked[places[target], places[source]] = True
    return linked
