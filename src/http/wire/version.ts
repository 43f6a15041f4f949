/** The version of the package and of both OpenAPI documents. */
export const packageVersion = "0.1.0";
