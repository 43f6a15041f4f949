/** The parts of views of several policies: the policies as they are in effect now, the field that chooses one, and mode badges. */
import type { Mode, Policy } from "../api/answers.ts";
import { read } from "../api/client.ts";

interface PolicyChoiceProps {
  readonly policies: readonly Policy[];
  readonly chosen: Policy | undefined;
  readonly onChoose: (name: string) => void;
}

export const PolicyChoice = ({ policies, chosen, onChoose }: PolicyChoiceProps) => (
  <>
    <label for="policy">Policy</label>
    <select id="policy" value={chosen?.name ?? ""} onChange={({ currentTarget: { value } }) => onChoose(value)}>
      {chosen === undefined && <option value="">Choose a policy</option>}
      {policies.map(({ name }) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  </>
);

export const readPolicies = async (abort: AbortSignal): Promise<readonly Policy[]> =>
  (await read<{ readonly policies: readonly Policy[] }>("policies", abort)).policies;

/** Outcomes of the modes differ in color: enforced limits deny. */
const colors: Readonly<Record<Mode, string>> = { enforce: "allowed", "dry-run": "warning", off: "denied" };

export const ModeBadge = ({ mode }: { readonly mode: Mode }) => <span class={`badge ${colors[mode]}`}>{mode}</span>;
