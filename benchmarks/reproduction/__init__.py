"""The tables and figures of the papers behind dpgraph, run again: `make reproduce` writes docs/reproduction.

    make reproduce                          # everything, in about 14 minutes on two cores
    make reproduce QUICK=1                  # fewer repetitions; compares its cells with the stored ones
    make reproduce ONLY=guo_table_1a        # one piece, or several: ONLY="guo_table_1a guo_table_2"
    make reproduce ONLY=none                # no runs: pictures and pages from the stored results

A *piece* is one printed table or figure, or one question about them. It has three parts, kept apart:

- `jobs` and `measure`: what is run. A job returns records, one for each repetition of a cell, which the runner sums up
  to one row for each cell and measure: the piece's keys, `measure`, `mean`, `sd`, `repetitions`. They are stored as
  docs/reproduction/NAME.csv, which is committed.
- `draw`: pictures from those rows alone, as docs/reproduction/NAME.png or NAME-*.png.
- `describe`: Markdown tables and numbers from those rows alone, for the template of the paper's page. No number of a
  page is typed by hand.

To add a table of a paper:

1. put what is printed into printed/NAME.csv, with the paper's own units;
2. write PAPER/NAME.py with a `Piece` (pieces.py says what its fields mean; guo/table_1a.py is a model), whose jobs take
   their seeds from `setting.seed`, so that a repetition gives the same numbers whatever else is run;
3. list the piece in pieces.py, under `PIECES`;
4. write its section into templates/PAPER.md.j2, where `NAME` holds what `describe` returned, and `command("NAME")` the
   command that runs it; a new paper needs a template, a line in templates/index.md.j2, and its title in `PAPERS`;
5. run `make reproduce ONLY=NAME`, look at the page and at every picture, then run it once with QUICK=1.

Data sets that are not ours to give away are read from $DPGRAPH_DATA (data_sets.py says where each can be had); a piece
whose data are missing is skipped, says so, and its stored results stay.
"""
