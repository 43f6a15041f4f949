/** Parts that the pages and the dialogs of policies share: sources, the numbers of the last hour, and the frame of dialogs. */
import { createContext } from "preact";
import { useContext, useMemo, useState } from "preact/hooks";
import type { EntriesPart, PolicyView, RuleView, StatisticsView } from "../../../admin/wire.ts";
import { readChanges, recentChanges } from "../api/changes.ts";
import { readPolicy } from "../api/rules.ts";
import { type CountedTraffic, trafficOf } from "../overview/traffic.ts";
import { CountDown } from "../parts/count-down.tsx";
import { ChangeDialog, type ChangeDialogProps, MadeFirst, Meanwhile } from "../parts/dialog.tsx";
import { ruleSource, ruleText } from "../parts/rule-text.ts";
import { hrefOf } from "../shell/route.ts";
import type { OpenDialog } from "./dialogs.tsx";
import { decisionsOf } from "../keys/denials.ts";
import { requestsText } from "./texts.ts";

type SourceOf = Pick<EntriesPart, "source" | "rule">;

const ruleOf = ({ rules }: PolicyView, { rule }: SourceOf): RuleView | undefined => rules.find(({ id }) => id === rule);

/** For example "from a rule by ops, until 22 Nov 2026, 18:30:00". */
export function sourceText(policy: PolicyView, sourced: SourceOf): string {
  const rule = ruleOf(policy, sourced);
  return rule === undefined ? "from the configuration" : ruleSource(rule);
}

/** The rules that a return to the configuration removes. */
export const removedRules = ({ rules }: PolicyView, part: "mode" | "limits"): readonly string[] =>
  rules.filter(({ kind }) => kind === part).map((rule) => `This removes the rule by ${rule.actor}: ${ruleText(rule)}.`);

/** The rule that a part comes from; nothing for a part of the configuration. */
export function Source({ policy, of }: { readonly policy: PolicyView; readonly of: SourceOf }) {
  const rule = ruleOf(policy, of);
  if (rule === undefined) return null;
  return (
    <span class="dim">
      from <a href={hrefOf("audit", { rule: rule.id })}>a rule</a> by {rule.actor},{" "}
      <CountDown until={rule.expiresAt} endless="without an end" />
    </span>
  );
}

export const OpenPolicyDialog = createContext<(dialog: OpenDialog) => void>(() => {});

/** Null before the first answer. */
export const LastHour = createContext<StatisticsView | null>(null);

export function useHour(textOf: (statistics: StatisticsView) => string): string {
  const statistics = useContext(LastHour);
  return statistics === null ? "…" : textOf(statistics);
}

/** Null before the first answer. */
export function useHourTraffic(): CountedTraffic | null {
  const statistics = useContext(LastHour);
  return useMemo(() => (statistics === null ? null : trafficOf(statistics)), [statistics]);
}

/** The requests that a change of a policy concerns. */
export function Concerned({ policy }: { readonly policy: string }) {
  const text = useHour((statistics) => requestsText(decisionsOf(statistics, policy)));
  return (
    <>
      Policy {policy}: {text}
    </>
  );
}

export interface PolicyDialogProps {
  /** The newest state of the policy. */
  readonly live: PolicyView;
  readonly onClose: () => void;
}

/**
 * The state that a dialog shows and changes. It stays the same until the operator asks for the newer one.
 * @param onShow is called before a newer state is shown
 */
export function useShownPolicy(live: PolicyView, onShow?: (shown: PolicyView, newer: PolicyView) => void) {
  const [policy, setPolicy] = useState(live);
  const show = (newer: PolicyView): void => {
    onShow?.(policy, newer);
    setPolicy(newer);
  };
  return { policy, live, show };
}

interface PolicyChangeDialogProps<Result> extends Omit<ChangeDialogProps<Result>, "onOutdated"> {
  readonly shown: ReturnType<typeof useShownPolicy>;
}

/** A dialog that keeps what was typed when another operator changes the same policy. */
export function PolicyChangeDialog<Result>({ shown, children, ...dialog }: PolicyChangeDialogProps<Result>) {
  const { policy, live, show } = shown;
  const [openedVersion] = useState(live.version);
  const others = recentChanges.value.filter(
    (entry) => entry.policy === policy.name && entry.keyId === null && entry.seq > openedVersion,
  );
  const showNewest = async (cause: Error): Promise<Error> => {
    readChanges();
    show(await readPolicy(policy.name));
    return new MadeFirst("Your change was not made, because the policy changed after this dialog was opened.", {
      cause,
    });
  };
  return (
    <ChangeDialog {...dialog} newer={others.filter(({ seq }) => seq <= policy.version)} onOutdated={showNewest}>
      {children}
      <Meanwhile entries={others} intro="While this dialog was open:">
        {live.version > policy.version && (
          <button type="button" onClick={() => show(live)}>
            Show the effect on the new state
          </button>
        )}
      </Meanwhile>
    </ChangeDialog>
  );
}
