/** The fields for a span with a beginning and an end of its own, in the time zone of the browser. */
import { useState } from "preact/hooks";
import { now } from "../clock.ts";
import type { TimeRange } from "../parts/plot-data.ts";
import { replaceQuery } from "../shell/route.ts";
import type { TimeSpan } from "./spans.ts";

/** The fields are open while such a span is shown. Otherwise they begin with the span that is shown. */
export function OwnSpan({ span }: { readonly span: TimeSpan }) {
  const [isOpen, setIsOpen] = useState(span.range !== null);
  const toMs = span.range?.toMs ?? now();
  const range = span.range ?? { fromMs: toMs - span.lengthMs, toMs };
  return (
    <>
      <button
        type="button"
        aria-pressed={span.range !== null}
        aria-expanded={isOpen}
        onClick={() => setIsOpen(!isOpen)}
      >
        From … to …
      </button>
      {isOpen && <RangeForm key={`${span.name} ${span.range?.fromMs} ${span.range?.toMs}`} range={range} />}
    </>
  );
}

function RangeForm({ range }: { readonly range: TimeRange }) {
  const [from, setFrom] = useState(localText(range.fromMs));
  const [to, setTo] = useState(localText(range.toMs));
  const problem = Date.parse(from) < Date.parse(to) ? "" : "The end must be after the beginning.";
  const show = (event: Event): void => {
    event.preventDefault();
    if (problem === "") replaceQuery({ span: "", from: String(Date.parse(from)), to: String(Date.parse(to)) });
  };
  return (
    <form class="row own-span" onSubmit={show}>
      <label>
        From{" "}
        <input
          type="datetime-local"
          required
          value={from}
          max={localText(now())}
          onInput={({ currentTarget }) => setFrom(currentTarget.value)}
        />
      </label>
      <label>
        to{" "}
        <input type="datetime-local" required value={to} onInput={({ currentTarget }) => setTo(currentTarget.value)} />
      </label>
      <button type="submit">Show</button>
      {problem !== "" && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}

const minuteMs = 60_000;

/** The value of a field of the type `datetime-local`, which has no time zone: "2026-11-22T10:00". */
function localText(atMs: number): string {
  const offsetMs = new Date(atMs).getTimezoneOffset() * minuteMs;
  return new Date(atMs - offsetMs).toISOString().slice(0, 16);
}
