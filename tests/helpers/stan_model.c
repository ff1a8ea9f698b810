/* Stands in for a model that BridgeStan has compiled, which takes Stan's compiler. The program that it stands for:

   data { real x; }
   parameters { real mu; real<lower=0> sigma; matrix[2, 2] m; }
   transformed parameters { real twice = 2 * mu; }
   model { mu ~ normal(1, 0.5); sigma ~ exponential(1); m[i, j] ~ normal(i + 10 * j, 0.1); if (mu > 100) reject(mu); }
   generated quantities { real y_rep = uniform_rng(mu * x, mu * x + sigma); vector[2] log_lik = [mu, x]'; }
*/
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct { double x; } bs_model;
typedef struct { unsigned long long state; } bs_rng;

const int bs_major_version = MAJOR, bs_minor_version = MINOR, bs_patch_version = PATCH;

static int fail(char **error, const char *message) {
  if (error) *error = strdup(message);
  return -1;
}

bs_model *bs_model_construct(const char *data, unsigned int seed, char **error) {
  const char *found = strstr(data, "\"x\"");
  bs_model *m = malloc(sizeof *m);
  if (!found) { free(m); fail(error, "variable does not exist; name=x"); return NULL; }
  m->x = strtod(strchr(found, ':') + 1, NULL);
  return m;
}
void bs_model_destruct(bs_model *m) { free(m); }
void bs_free_error_msg(char *error) { free(error); }
int bs_set_print_callback(void *callback, char **error) { return 0; }
const char *bs_name(const bs_model *m) { return "stand_in_model"; }
const char *bs_model_info(const bs_model *m) { return "none"; }
int bs_param_unc_num(const bs_model *m) { return 6; }
const char *bs_param_unc_names(const bs_model *m) { return "mu,sigma,m.1.1,m.2.1,m.1.2,m.2.2"; }
int bs_param_num(const bs_model *m, bool tp, bool gq) { return 6 + tp + 3 * gq; }
const char *bs_param_names(const bs_model *m, bool tp, bool gq) {
  static const char *all[] = {"mu,sigma,m.1.1,m.2.1,m.1.2,m.2.2", "mu,sigma,m.1.1,m.2.1,m.1.2,m.2.2,twice",
                              "mu,sigma,m.1.1,m.2.1,m.1.2,m.2.2,y_rep,log_lik.1,log_lik.2",
                              "mu,sigma,m.1.1,m.2.1,m.1.2,m.2.2,twice,y_rep,log_lik.1,log_lik.2"};
  return all[tp + 2 * gq];
}

bs_rng *bs_rng_construct(unsigned int seed, char **error) {
  bs_rng *rng = malloc(sizeof *rng);
  rng->state = seed;
  return rng;
}
void bs_rng_destruct(bs_rng *rng) { free(rng); }
static double uniform(bs_rng *rng) {
  rng->state = rng->state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (rng->state >> 11) / 9007199254740992.0;
}

int bs_param_constrain(const bs_model *m, bool tp, bool gq, const double *x, double *theta, bs_rng *rng, char **error) {
  if (gq && !rng) return fail(error, "include_gq=true but rng=nullptr");
  memcpy(theta, x, 6 * sizeof *x);
  theta[1] = exp(x[1]);
  if (tp) theta[6] = 2 * x[0];
  if (gq) {
    theta[6 + tp] = x[0] * m->x + theta[1] * uniform(rng);
    theta[7 + tp] = x[0];
    theta[8 + tp] = m->x;
  }
  return 0;
}
int bs_param_unconstrain(const bs_model *m, const double *theta, double *x, char **error) {
  if (!(theta[1] > 0)) return fail(error, "lub_free: sigma is not positive");
  memcpy(x, theta, 6 * sizeof *x);
  x[1] = log(theta[1]);
  return 0;
}

int bs_log_density_gradient(const bs_model *m, bool propto, bool jacobian, const double *x, double *value, double *grad,
                            char **error) {
  if (x[0] > 100) return fail(error, "mu is too large");
  *value = -2 * (x[0] - 1) * (x[0] - 1) - exp(x[1]) + (jacobian ? x[1] : 0);
  grad[0] = -4 * (x[0] - 1);
  grad[1] = -exp(x[1]) + (jacobian ? 1 : 0);
  for (int k = 0; k < 4; k++) {
    double residual = x[2 + k] - (1 + k % 2 + 10 * (1 + k / 2));
    *value -= 50 * residual * residual;
    grad[2 + k] = -100 * residual;
  }
  return 0;
}
/* Not called here, but looked up. */
int bs_log_density(void) { return -1; }
int bs_log_density_hessian(void) { return -1; }
int bs_log_density_hessian_vector_product(void) { return -1; }
int bs_param_unconstrain_json(void) { return -1; }
int bs_param_initialize(void) { return -1; }
