/** The problems of the configuration. Anyone can read them, so they name variables and never their values. */
import type { ConfigProblem } from "../../validation/problems.ts";
import type { Problem } from "./problems.ts";

interface Found {
  readonly problems: readonly ConfigProblem[];
}

export interface ConfigurationFailures {
  /** With `isOfPackage`, in a Worker of a user of the package: it has no command that checks the configuration. */
  "configuration-invalid": Found & { readonly isOfPackage?: boolean };
  /** Required variables are not set yet. Those that are set are valid. */
  "configuration-missing": Found;
}

const errorsIn = ({ problems }: Found): Omit<ConfigProblem, "value">[] =>
  problems.map(({ variable, field, accepted }) => ({ variable, field, accepted }));

export const configurationProblems: {
  readonly [Kind in keyof ConfigurationFailures]: (failure: ConfigurationFailures[Kind]) => Problem;
} = {
  "configuration-invalid": (failure) => ({
    status: 500,
    proxyError: "proxy_configuration_error",
    title: "Internal Server Error",
    detail:
      failure.isOfPackage === true
        ? "The configuration of Headgate is invalid. The log also shows the values."
        : "The configuration of Headgate is invalid. `npm run check-config` and the log also show the values.",
    members: { errors: errorsIn(failure) },
  }),

  "configuration-missing": (failure) => ({
    status: 503,
    proxyError: "proxy_configuration_error",
    title: "Service Unavailable",
    detail:
      "Headgate is not configured yet. It charges and forwards no request until the variables in `errors` are set.",
    members: { errors: errorsIn(failure) },
    headers: { "Retry-After": "60" },
  }),
};
