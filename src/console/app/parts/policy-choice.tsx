/** The field that chooses the policy of a view. */
import type { Policy } from "../api/answers.ts";

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
