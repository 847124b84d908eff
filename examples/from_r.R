# What dp-learn and dp-bundle write, in R: qgraph, EBICglasso with the effective number of rows, and igraph.
#
#   Rscript from_r.R wine.graph                        a folder that dp-learn wrote
#   Rscript from_r.R wine.graph wine.csv wine.json     and the rows of `dp-bundle export`, with `dp-bundle inspect --json`
#
# Needs qgraph, igraph and jsonlite (Debian: r-cran-qgraph r-cran-igraph r-cran-jsonlite). Writes graph-from-r.png.

given <- commandArgs(trailingOnly = TRUE)
folder <- given[1]
in_folder <- function(name) file.path(folder, name)
read_square <- function(name) as.matrix(read.csv(in_folder(name), row.names = 1, check.names = FALSE))

# The graph that dp-learn found, as qgraph draws it: colours of nodes are communities.
summary <- jsonlite::read_json(in_folder("summary.json"))
nodes <- read.csv(in_folder("nodes.csv"))
edges <- read.csv(in_folder("edges.csv"))
weights <- matrix(0, nrow(nodes), nrow(nodes), dimnames = list(nodes$node, nodes$node))
ends <- cbind(match(edges$source, nodes$node), match(edges$target, nodes$node))
weights[ends] <- weights[ends[, 2:1, drop = FALSE]] <- edges$partial_correlation
community <- ifelse(is.na(nodes$community), "none", paste("community", nodes$community))
png("graph-from-r.png", width = 900, height = 700)
drawn <- qgraph::qgraph(weights, layout = "spring", groups = community, labels = nodes$node)
invisible(dev.off())
cat("edges by dp-learn:", nrow(edges), "\n")
known <- which.max(nodes$predictability) # none where the noise is too strong to tell
cat("most predictable node:", if (length(known)) nodes$node[known] else "not known", "\n")

# Another estimator on the debiased covariance. It takes n to be rows without noise, so it gets the effective number:
# with the number of rows it would find edges in the noise.
covariance <- read_square("covariance.csv")
correlation <- cov2cor(covariance)
sparse <- qgraph::EBICglasso(correlation, n = summary$effective_rows)
cat("edges by EBICglasso:", sum(sparse[upper.tri(sparse)] != 0), "\n")

# igraph reads the graph with the names of its nodes and the weights of its edges.
graph <- igraph::read_graph(in_folder("graph.graphml"), format = "graphml")
strongest <- which.max(igraph::strength(graph, weights = igraph::E(graph)$weight))
cat("strongest node by igraph:", igraph::V(graph)$name[strongest], "\n")

# The same covariance from the exported rows: the known variance of the noise is subtracted from the diagonal.
if (length(given) == 3) {
  rows <- read.csv(given[2], check.names = FALSE)
  columns <- jsonlite::read_json(given[3])$release$columns
  noise <- vapply(columns, function(column) column$noise$variance, numeric(1))
  debiased <- cov(rows) - diag(noise)
  cat("largest difference from covariance.csv:", max(abs(debiased - covariance) / max(abs(covariance))), "\n")
}
