/** Components for views of several policies: the policies in effect now, the field to choose one, and mode badges. */
import type { PolicyMode, PolicyView, PolicyList } from "../../../admin/wire.ts";
import { read } from "../api/client.ts";
import type { ComponentChildren } from "preact";
import { Empty, Reading } from "./notice.tsx";
import { useChanges } from "../api/changes.ts";
import { type Polling, usePolled } from "../api/poll.ts";
import { Select } from "./fields.tsx";

interface PolicyChoiceProps {
  readonly policies: readonly PolicyView[];
  readonly chosen: PolicyView | undefined;
  readonly onChoose: (name: string) => void;
}

export const PolicyChoice = ({ policies, chosen, onChoose }: PolicyChoiceProps) => (
  <Select
    label="Policy"
    value={chosen?.name ?? ""}
    options={[...(chosen === undefined ? [["", "Choose a policy"] as const] : []), ...policies.map(({ name }) => name)]}
    onChange={onChoose}
  />
);

export const readPolicies = async (abort: AbortSignal): Promise<readonly PolicyView[]> =>
  (await read<PolicyList>("policies", abort)).policies;

const pauseMs = 10_000;

/** Reads the policies repeatedly, and at once after a change by anybody. */
export function usePolicies(): Polling<readonly PolicyView[]> {
  const polled = usePolled(readPolicies, pauseMs);
  useChanges(polled.readAgain);
  return polled;
}

/** Shows the policies of the configuration once they are read, or a notice if there are none. */
export const AnyPolicies = ({
  children,
}: {
  readonly children: (policies: readonly PolicyView[]) => ComponentChildren;
}) => (
  <Reading of={usePolicies()} what="the policies">
    {(policies) => (policies.length === 0 ? <Empty>The configuration has no policies.</Empty> : children(policies))}
  </Reading>
);

/** `enforce` has the color of allowed requests, because it protects. `off` has the color of denied ones. */
const colors: Readonly<Record<PolicyMode, string>> = { enforce: "allowed", "dry-run": "warning", off: "denied" };

export const ModeBadge = ({ mode }: { readonly mode: PolicyMode }) => (
  <span class={`badge ${colors[mode]}`}>{mode}</span>
);
