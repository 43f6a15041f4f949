/** Loads the section "The last 24 hours" with the dialog that shows it, so that no view is larger by it. */
import { signal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect } from "preact/hooks";
import type { LastDayProps } from "./last-day.tsx";

const loaded = signal<FunctionComponent<LastDayProps> | null>(null);
const problem = signal(false);

export function LastDay(props: LastDayProps) {
  useEffect(() => {
    import("./last-day.tsx").then(
      (module) => (loaded.value = module.LoadedLastDay),
      () => (problem.value = true),
    );
  }, []);
  const Section = loaded.value;
  if (Section !== null) return <Section {...props} />;
  // The dialog is complete without it.
  return <p class="hint">{problem.value ? "The page cannot load the last 24 hours." : "…"}</p>;
}
