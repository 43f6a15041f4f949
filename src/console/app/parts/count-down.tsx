/** The time that is left, counting down each second. */
import { signal } from "@preact/signals";
import { now } from "../clock.ts";
import { durationText } from "./text.ts";

/** The time of all count-downs, so that they change together. */
export const second = signal(now());
setInterval(() => {
  if (!document.hidden) second.value = now();
}, 1_000);

/**
 * @param until an instant as the admin API has it; null for no end
 * @param endless the text for no end
 */
export function CountDown({ until, endless }: { readonly until: string | null; readonly endless: string }) {
  if (until === null) return <>{endless}</>;
  const leftMs = Date.parse(until) - second.value;
  return (
    <time dateTime={until} class="count-down">
      {leftMs > 0 ? `${durationText(leftMs)} left` : "ended"}
    </time>
  );
}
