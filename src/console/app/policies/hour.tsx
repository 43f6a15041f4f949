/** The numbers of the last hour, which all policies share. Only the texts that show them are rendered again. */
import { computed, type ReadonlySignal } from "@preact/signals";
import { createContext } from "preact";
import { useContext, useMemo } from "preact/hooks";
import type { Policy, Statistics } from "../api/answers.ts";
import { decisionsOf, modeDecisionsText, requestsText } from "./decisions.ts";

/** Null before the first answer. */
export const LastHour = createContext<ReadonlySignal<Statistics | null> | null>(null);

function useHour(textOf: (statistics: Statistics) => string, parameters: readonly unknown[]): ReadonlySignal<string> {
  const hour = useContext(LastHour);
  return useMemo(
    () =>
      computed(() => {
        const statistics = hour?.value ?? null;
        return statistics === null ? "…" : textOf(statistics);
      }),
    // oxlint-disable-next-line react/exhaustive-deps -- the caller lists what textOf depends on
    [hour, ...parameters],
  );
}

/** The requests that a change of a policy concerns. */
export function Concerned({ policy }: { readonly policy: string }) {
  const text = useHour((statistics) => requestsText(decisionsOf(statistics, policy)), [policy]);
  return (
    <>
      Policy {policy}: {text}
    </>
  );
}

/** How many requests were denied, or would have been. */
export function HourOfMode({ policy }: { readonly policy: Policy }) {
  const text = useHour((statistics) => modeDecisionsText(statistics, policy), [policy]);
  return <p class="hour">{text}</p>;
}
