/** The mode of a policy: buttons that change it, beside the numbers of the last hour. */
import type { Mode, Policy } from "../api/answers.ts";
import { may } from "../shell/session.ts";
import { HourOfMode } from "./hour.tsx";
import { Source } from "./source.tsx";
import type { OpenDialog } from "./open-dialog.tsx";

export const modes: readonly Mode[] = ["enforce", "dry-run", "off"];

/** Outcomes of the modes differ in color: enforced limits deny. */
const colors: Readonly<Record<Mode, string>> = {
  enforce: "allowed",
  "dry-run": "warning",
  off: "denied",
};

export const ModeBadge = ({ mode }: { readonly mode: Mode }) => <span class={`badge ${colors[mode]}`}>{mode}</span>;

interface ModeSwitchProps {
  readonly policy: Policy;
  readonly onOpen: (dialog: OpenDialog) => void;
}

export function ModeSwitch({ policy, onOpen }: ModeSwitchProps) {
  const { name, mode } = policy;
  return (
    <div class="mode">
      <div class="row">
        {may("write") ? (
          <div class="row switch" role="group" aria-label={`Mode of policy ${name}`}>
            {modes.map((each) => (
              <button
                key={each}
                type="button"
                aria-pressed={each === mode.value}
                disabled={each === mode.value && mode.source === "configuration"}
                onClick={() => onOpen({ kind: "mode", policy: name, mode: each })}
              >
                {each}
              </button>
            ))}
          </div>
        ) : (
          <ModeBadge mode={mode.value} />
        )}
        <Source policy={policy} of={mode} />
        {mode.source === "rule" && <span class="dim">Configured mode: {policy.configured.mode}</span>}
      </div>
      <HourOfMode policy={policy} />
    </div>
  );
}
