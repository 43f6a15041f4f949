/** The sentences above the lanes. */
import { headlineOf } from "./headline-text.ts";
import { visibleRuns } from "./plots.ts";

export function Headline() {
  const text = headlineOf(visibleRuns.value);
  return (
    <p class="pg-headline" role="status">
      {text ?? "\u00A0"}
    </p>
  );
}
