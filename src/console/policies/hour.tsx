/** The numbers of the last hour, which all policies share. Only the texts that show them are rendered again. */
import { computed, type ReadonlySignal } from "@preact/signals";
import { createContext } from "preact";
import { useContext, useMemo } from "preact/hooks";
import type { Mode, Statistics } from "../api/answers.ts";
import { type Decisions, decisionsOf, decisionsText, requestsText } from "./decisions.ts";

/** Null before the first answer. */
export const LastHour = createContext<ReadonlySignal<Statistics | null> | null>(null);

function useDecisions(policy: string): ReadonlySignal<Decisions | null> {
  const hour = useContext(LastHour);
  return useMemo(
    () =>
      computed(() => {
        const statistics = hour?.value ?? null;
        return statistics === null ? null : decisionsOf(statistics, policy);
      }),
    [hour, policy],
  );
}

/** The requests that a change of a policy concerns. */
export function Concerned({ policy }: { readonly policy: string }) {
  const { value } = useDecisions(policy);
  return (
    <>
      Policy {policy}: {value === null ? "…" : requestsText(value)}
    </>
  );
}

/** How many requests were denied, or would have been. */
export function HourOfMode({ policy, mode }: { readonly policy: string; readonly mode: Mode }) {
  const { value } = useDecisions(policy);
  return <p class="hour">{value === null ? "…" : decisionsText(value, mode)}</p>;
}
