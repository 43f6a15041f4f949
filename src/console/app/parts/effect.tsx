/** Shows the effect of a change before it is confirmed: the state now, the state then, and the state after its end. */
import type { ComponentChildren } from "preact";
import type { Term } from "../api/rule-input.ts";
import { second } from "./count-down.tsx";
import { termMs } from "./term.ts";
import { instantText, timeText } from "./text.ts";

export interface EffectProps {
  /** The key or the policy that changes, such as "Key 3f9aQx7p… of policy api". */
  readonly concerns: ComponentChildren;
  readonly now: ComponentChildren;
  readonly then: ComponentChildren;
  /** How long the change lasts. Default: without an end. */
  readonly term?: Term;
  /** The state after the end of the change; not shown for a change without an end. */
  readonly after?: ComponentChildren;
  /** Warnings, such as a ban that still denies the key. */
  readonly notes?: readonly string[];
}

export function Effect({ concerns, now, then, term = {}, after, notes = [] }: EffectProps) {
  const lengthMs = termMs(term);
  return (
    <section class="effect" aria-label="Effect">
      <dl>
        <dt>Concerns</dt>
        <dd>{concerns}</dd>
        <dt>Now</dt>
        <dd>{now}</dd>
        <dt>{lengthMs === null ? "Then" : <Until lengthMs={lengthMs} />}</dt>
        <dd>
          <strong>{then}</strong>
        </dd>
        {lengthMs !== null && after !== undefined && (
          <>
            <dt>After that</dt>
            <dd>{after}</dd>
          </>
        )}
      </dl>
      {notes.map((note) => (
        <p key={note} class="warning">
          {note}
        </p>
      ))}
    </section>
  );
}

const dayMs = 86_400_000;

/** The end moves while the dialog is open, because the term begins with the confirmation. */
function Until({ lengthMs }: { readonly lengthMs: number }) {
  const endMs = second.value + lengthMs;
  return <>Then, until {lengthMs < dayMs ? timeText(endMs) : instantText(endMs)}</>;
}
