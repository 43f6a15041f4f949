/** Loads the plot when there is something to draw, so that the view appears early. */
import { signal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect } from "preact/hooks";
import type { CandidatePlotProps } from "./candidate-plot.tsx";

const loaded = signal<FunctionComponent<CandidatePlotProps> | null>(null);
const hasFailed = signal(false);

/** The table of candidates has the same numbers, so a plot that cannot be loaded stops nothing. */
export function LazyPlot(props: CandidatePlotProps) {
  useEffect(() => {
    import("./candidate-plot.tsx").then(
      (module) => (loaded.value = module.CandidatePlot),
      () => (hasFailed.value = true),
    );
  }, []);
  const Plot = loaded.value;
  if (Plot !== null) return <Plot {...props} />;
  return <p class="plot-place dim">{hasFailed.value ? "The page cannot load the plot." : "…"}</p>;
}
