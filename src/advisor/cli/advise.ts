/** `npm run advise`: recommends limits for the traffic of a log, or of a deployment's samples, and a goal. */
import { adviseAndCheck, adviseWhole } from "../search/second-half.ts";
import { acceptedGoal, type Goal, parseGoal } from "../search/goal.ts";
import { ConfigProblems } from "../../strategies/index.ts";
import { adviceFacts, adviceLines, policyName } from "./advice-report.ts";
import { CommandError, parseCommandLine, runCommand } from "../../cli/command.ts";
import { Progress, readTraffic } from "./input.ts";
import { printReport } from "./report-text.ts";
import { trafficChoice, trafficOptions } from "./input-options.ts";

const values = parseCommandLine({
  goal: {
    type: "string",
    value: "goal",
    about: 'What the limits shall achieve, such as "deny at most 0.1 % of requests"; required.',
  },
  name: {
    type: "string",
    value: "name",
    about: "The name of the policy in TOML; else that of the samples, or api.",
  },
  whole: {
    type: "boolean",
    about: "Choose from the whole log, without a check on its second half.",
  },
  ...trafficOptions,
});

await runCommand(async () => {
  const goal = goalOf(values.goal);
  const choice = trafficChoice(values);
  if (choice.kind === "samples" && values.whole === true) {
    throw new CommandError("--whole does not apply to samples, of which all are used.");
  }
  const name = policyName(values.name ?? values.policy ?? "api");
  const progress = new Progress();
  const traffic = await readTraffic(choice, values, progress);
  const isHalved = choice.kind === "log" && values.whole !== true;
  const steps = isHalved ? adviseAndCheck(traffic.timelines, goal) : adviseWhole(traffic.timelines, goal);
  const checked = progress.finish("Replaying candidates", steps);
  printReport(values.json === true ? adviceFacts(traffic, checked, name) : adviceLines(traffic, checked, name));
});

function goalOf(text: string | undefined): Goal {
  if (text === undefined) throw new CommandError(`--goal is missing: expected ${acceptedGoal}`);
  try {
    return parseGoal(text);
  } catch (error) {
    if (error instanceof ConfigProblems) throw new CommandError(`--${error.message}`);
    throw error;
  }
}
