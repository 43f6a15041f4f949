/** The sentences above the lanes. */
import { headlineOf } from "./headline-text.ts";
import { settledRuns } from "./plots.ts";

export function Headline() {
  const text = headlineOf(settledRuns.value);
  return (
    <p class="pg-headline" role="status">
      {text ?? "\u00A0"}
    </p>
  );
}
