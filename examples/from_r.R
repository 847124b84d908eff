# What dp-learn and dp-bundle write, in R: one function, dp_network(), and what to do with what it returns.
#
#   source("from_r.R")
#   network <- dp_network("wine.graph")                a folder that dp-learn wrote
#   plot(network)                                      by qgraph; print(network) for a summary
#   plot_intervals(network); plot_centrality(network)  95 % intervals, which know of the noise
#
# From a shell it also tries EBICglasso and igraph, and compares the covariance with exported rows:
#
#   Rscript from_r.R wine.graph                        a folder that dp-learn wrote
#   Rscript from_r.R wine.graph wine.csv wine.json     and the rows of `dp-bundle export`, with `dp-bundle inspect --json`
#
# Needs qgraph, igraph and jsonlite (Debian: r-cran-qgraph r-cran-igraph r-cran-jsonlite). Writes graph-from-r.png.

# The graph in a folder of dp-learn, with the fields that bootnet's results have: `graph`, the matrix of weights;
# `labels`; `nNode`; `nPerson`, the number of Gaussian rows without noise at which a correlation that is zero would have
# the same error. `intervals` has each edge with its 95 % interval, and `nodes` each node with its measures; `covariance`
# is without the noise's part, `pairs` has all pairs, edges or not, and `methods` a paragraph for a paper.
dp_network <- function(folder) {
  in_folder <- function(name) file.path(folder, name)
  table_of <- function(name) if (file.exists(in_folder(name))) read.csv(in_folder(name), check.names = FALSE)
  summary <- jsonlite::read_json(in_folder("summary.json"))
  nodes <- table_of("nodes.csv")
  edges <- table_of("edges.csv")
  graph <- matrix(0, nrow(nodes), nrow(nodes), dimnames = list(nodes$node, nodes$node))
  ends <- cbind(match(edges$source, nodes$node), match(edges$target, nodes$node))
  graph[ends] <- graph[ends[, 2:1, drop = FALSE]] <- edges$partial_correlation
  known <- function(name) if (is.null(edges[[name]])) rep(NA_real_, nrow(edges)) else edges[[name]]
  intervals <- data.frame(
    node1 = edges$source, node2 = edges$target, weight = edges$partial_correlation, sample = known("desparsified"),
    CIlower = known("ci_low"), CIupper = known("ci_high"), q_value = known("q_value")
  )
  covariance <- as.matrix(read.csv(in_folder("covariance.csv"), row.names = 1, check.names = FALSE))
  structure(
    list(
      graph = graph, labels = nodes$node, nNode = nrow(nodes), nPerson = summary$effective_rows,
      groups = ifelse(is.na(nodes$community), "none", paste("community", nodes$community)),
      intervals = intervals, nodes = nodes, pairs = table_of("pairs.csv"), stability = table_of("stability.csv"),
      covariance = covariance, summary = summary, methods = readLines(in_folder("methods.txt"), encoding = "UTF-8")[1]
    ),
    class = c("dp_network", "bootnetResult")
  )
}

print.dp_network <- function(x, ...) {
  cat(x$nNode, "nodes,", nrow(x$intervals), "edges, worth", round(x$nPerson), "rows without noise\n")
  print(head(x$intervals, 10), digits = 2, row.names = FALSE)
  for (note in x$summary$notes) cat(strwrap(note, exdent = 2), sep = "\n")
  invisible(x)
}

# The graph as qgraph draws it: colours of nodes are communities. Further arguments are qgraph's, such as `nodeNames`,
# by which a legend has long names.
plot.dp_network <- function(x, layout = "spring", ...) {
  own <- list(layout = layout, groups = x$groups, labels = x$labels, palette = "pastel", theme = "colorblind", label.cex = 0.8,
    label.scale = FALSE)
  do.call(qgraph::qgraph, c(list(x$graph), utils::modifyList(own, list(...))))
}

# Points with their intervals, the largest first; what has no interval is left out.
draw_intervals <- function(labels, value, low, high, title) {
  shown <- which(!is.na(low) & !is.na(value))
  if (!length(shown)) stop("there are no intervals: the notes of print() say why")
  shown <- shown[order(value[shown])]
  par(mar = c(4, min(2 + 0.4 * max(nchar(labels[shown])), 30), 3, 1))
  plot(value[shown], seq_along(shown), xlim = range(low[shown], high[shown], 0), yaxt = "n", pch = 19, ylab = "", xlab = title)
  segments(low[shown], seq_along(shown), high[shown], seq_along(shown))
  abline(v = 0, lty = 3)
  axis(2, seq_along(shown), labels[shown], las = 1, cex.axis = 0.7)
}

# Desparsified partial correlations of the edges, as bootnet draws bootstrapped ones.
plot_intervals <- function(network) {
  own <- network$intervals
  draw_intervals(paste(own$node1, "--", own$node2), own$sample, own$CIlower, own$CIupper, "partial correlation, 95 % interval")
}

# A measure of the nodes: "strength", "expected_influence" or "predictability".
plot_centrality <- function(network, measure = "predictability") {
  own <- network$nodes
  ends <- paste0(measure, c("_low", "_high"))
  draw_intervals(own$node, own[[measure]], own[[ends[1]]], own[[ends[2]]], paste(sub("_", " ", measure), "95 % interval", sep = ", "))
}

given <- commandArgs(trailingOnly = TRUE)
if (sys.nframe() == 0 && length(given)) {
  network <- dp_network(given[1])
  png("graph-from-r.png", width = 900, height = 700)
  plot(network)
  invisible(dev.off())
  cat("edges by dp-learn:", nrow(network$intervals), "\n")
  known <- which.max(network$nodes$predictability) # none where the noise is too strong to tell
  cat("most predictable node:", if (length(known)) network$labels[known] else "not known", "\n")

  # Another estimator on the debiased covariance. It takes n to be rows without noise, so it gets the effective number:
  # with the number of rows it would find edges in the noise.
  sparse <- qgraph::EBICglasso(cov2cor(network$covariance), n = network$nPerson)
  cat("edges by EBICglasso:", sum(sparse[upper.tri(sparse)] != 0), "\n")

  # igraph reads the graph with the names of its nodes and the weights of its edges.
  graph <- igraph::read_graph(file.path(given[1], "graph.graphml"), format = "graphml")
  strongest <- which.max(igraph::strength(graph, weights = igraph::E(graph)$weight))
  cat("strongest node by igraph:", igraph::V(graph)$name[strongest], "\n")

  # The same covariance from the exported rows: the known variance of the noise is subtracted from the diagonal.
  if (length(given) == 3) {
    rows <- read.csv(given[2], check.names = FALSE)
    columns <- jsonlite::read_json(given[3])$release$columns
    noise <- vapply(columns, function(column) column$noise$variance, numeric(1))
    off <- abs(cov(rows) - diag(noise) - network$covariance) / max(abs(network$covariance))
    cat("largest difference from covariance.csv:", max(off), "\n")
  }
}
